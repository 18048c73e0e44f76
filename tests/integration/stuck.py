"""Handlers that wait in C, where no exception of another thread comes, for ever."""

import os
from time import monotonic

from django_tasks.api import TaskHandler
from django_tasks.handlers.running_task import RunningTask
from tests.integration.handlers import Gated, Run, note

__all__ = ["Gated", "Run"]


def wait_for_ever() -> None:
    reader, _ = os.pipe()
    os.read(reader, 1)


class Stuck(TaskHandler):
    """Does not even end at its timeout."""

    biz_code = "stuck"
    max_attempts = 1
    timeout = 0.1
    kill_after = 0.5

    def handle(self, task: RunningTask) -> None:
        note("start", task, monotonic())
        wait_for_ever()


class StuckAtFirst(TaskHandler):
    """Holds a transaction open at its first run, with a lock on its row, and ends well later."""

    biz_code = "holding"
    atomic = True
    kill_after = 0.5

    def handle(self, task: RunningTask) -> None:
        note("start", task, monotonic())
        if not (task.biz_ext or {}).get("gate"):
            task.save({"gate": None})
            wait_for_ever()
