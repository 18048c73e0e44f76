"""The handler that hands over. It is as one would write it, but for shorter waits."""

from django_tasks.api import HandOver, RunningTask
from django_tasks.backoff import Exponential
from tests.faults import journal


class Handed(HandOver):
    biz_code = "handed"
    celery_task = "handed"
    celery_app = "tests.faults.handing.engine.app"
    celery_options = {"timeout": 1.0, "confirm_timeout": 1.0}
    backoff = Exponential(first=0.1, cap=1)

    def handle(self, task: RunningTask) -> None:
        journal.write("sends", nonce=task.biz_ext["nonce"])
        super().handle(task)
