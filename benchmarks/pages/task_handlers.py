"""Handlers of all codes but two."""

from benchmarks.pages.columns import CODES
from django_tasks.api import RunningTask, register_task_handler, task_handler


def handle(task: RunningTask) -> None:
    """Do nothing: here nothing runs."""


for code in list(CODES)[:-2]:
    register_task_handler(task_handler(code)(handle))
