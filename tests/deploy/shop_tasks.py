"""The module ``shop.task_handlers`` of the project that the files of ``deploy/`` start."""

from pathlib import Path
from threading import Event

from django_tasks.api import TaskHandler

LOOK_SECONDS = 0.02
LOOKS = 3000

_never = Event()


class EndPromotion(TaskHandler):
    """Says in its folder that it has begun, waits for the gate, and says that it has ended."""

    biz_code = "end_promotion"

    def handle(self, task):
        folder = Path(task.biz_ext["folder"])
        _say(folder, "begun", task)
        for _ in range(LOOKS):
            if (folder / "gate").exists():
                break
            _never.wait(LOOK_SECONDS)
        _say(folder, "ended", task)


def _say(folder, event, task):
    with open(folder / event, "a", encoding="utf-8") as lines:
        lines.write(f"{task.biz_num}\n")
