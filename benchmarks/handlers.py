"""What our workers run."""

from benchmarks.journal import recorder
from django_tasks.api import TaskHandler
from django_tasks.running import RunningTask

record = recorder()


class Noop(TaskHandler):
    biz_code = "noop"

    def handle(self, task: RunningTask) -> None:
        record(int(task.biz_num))
