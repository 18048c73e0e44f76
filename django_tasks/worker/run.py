"""One run of one task: the facts that its steps share. Frozen: a step returns another one."""

from datetime import datetime
from typing import Any, NamedTuple, Protocol

from django.db import connections

from django_tasks import logs, signals
from django_tasks.clock import Clock, Tick
from django_tasks.handlers.base import TaskHandler, time_limit
from django_tasks.handlers.current import about
from django_tasks.handlers.recurrence import Policy, Recurrence, policy_of
from django_tasks.handlers.running_task import PassiveTask, RunningTask
from django_tasks.store.connection import leave_transactions
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Outcome


class Standing(Protocol):
    """The side of a worker that a run asks: its id, its lease and its clock."""

    @property
    def worker_id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    def is_valid(self, now: float | None = None) -> bool: ...


class Run(NamedTuple):
    """A claim, its handler, and what was done so far about times that have passed (``missed``).

    ``own`` is the policy of a task whose row says something about it.
    """

    claimed: Claimed
    handler: TaskHandler
    task: RunningTask
    started: Tick
    using: str
    missed: tuple[str, ...] = ()
    recurrence: Recurrence | None = None
    own: Policy | None = None

    @property
    def policy(self) -> Policy:
        """The policy of its row, and of its handler where the row has none."""
        return self.own or policy_of(self.handler)

    @property
    def timeout(self) -> float | None:
        """Seconds, as ``policy`` says. Asked for in every run, and most rows say nothing."""
        if self.own is None and self.handler.timeout is None:
            return None
        return self.own.timeout if self.own else time_limit(self.handler)

    def tell(self, signal: Any, **facts: Any) -> None:
        """Send a signal about this run. What a receiver leaves open is undone."""
        if signal.receivers:  # quicker than has_listeners(), for there are two signals a run
            # That of an ``atomic`` run is not left open: its next time is being found.
            is_inside = connections[self.using].in_atomic_block
            with about(self.task):  # one of a batch, perhaps
                signals.tell(signal, type(self.handler), task=self.task, using=self.using, **facts)
            if not is_inside:
                leave(self.task, "a receiver of a signal of ")

    def having_missed(self, action: str, late: float) -> "Run":
        """This run, once ``action`` was taken because it is ``late`` seconds late."""
        logs.missed(self.task, late, action)
        self.tell(signals.task_missed, lateness=late, action=action)
        return self._replace(missed=(*self.missed, action))

    def lateness(self, now: datetime) -> float:
        """Seconds; of a run for the last of several missed times, since that time."""
        return (now - max(self.claimed.when, self.claimed.intended_time)).total_seconds()


# The run as it was at its end, and its outcome. A plain tuple: each run makes one, and one of a
# class of its own took a tenth of the time of a run that does nothing.
RunEnd = tuple[Run, Outcome]
Subject = RunningTask | Claimed | PassiveTask


def leave(task: Subject, who: str = "", *, is_over: bool = False) -> None:
    """Roll back what a run, or ``who`` of it ("on_failure of "), has left open in a thread of ours:
    else it takes with it what others write there next. The run goes on, unless it ``is_over``.
    """
    if left := leave_transactions(is_over=is_over):
        logs.transaction_left(task, left, who)
