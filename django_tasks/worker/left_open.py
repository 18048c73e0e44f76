"""Transactions that the project's code leaves open in a thread of ours: undone at once, and said.

Else they would take with them what whoever comes next writes there.
"""

from django_tasks import logs
from django_tasks.handlers.passive_task import PassiveTask
from django_tasks.handlers.running_task import RunningTask
from django_tasks.store.connection import leave_transactions
from django_tasks.values.claimed import Claimed

Task = RunningTask | Claimed | PassiveTask


def leave(task: Task, who: str = "", *, is_over: bool = False) -> None:
    """Roll back what a run, or ``who`` of it ("on_failure of "), has left open in a thread of ours.

    It goes on, unless it ``is_over``.
    """
    if left := leave_transactions(is_over=is_over):
        logs.transaction_left(task, left, who)
