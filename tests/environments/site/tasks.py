"""The site's only task: a clock that ticks."""

from django_tasks.api import RunningTask, TaskHandler
from tests.environments.site.notes import note


class Tick(TaskHandler):
    """Notes each second that it was meant for."""

    biz_code = "tick"
    schedule = "every 1s"

    def handle(self, task: RunningTask) -> None:
        note(f"tick {task.scheduled_time or task.when:%H:%M:%S.%f}")
