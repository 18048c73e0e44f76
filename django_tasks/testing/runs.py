"""The record of one run in place, and the signals that tell what it is made of."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from threading import get_ident
from typing import Any, NamedTuple

from django.dispatch import Signal

from django_tasks import signals
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.running_task import RunningTask


@dataclass(frozen=True, slots=True)
class Ran:
    """One run that has ended, and its end is written.

    ``outcome`` is the word of the history: "done", "rescheduled", "retried", "failed", "skipped",
    or "lost". ``exception`` is what the handler has raised, or None. ``when`` is the time at which
    the task was due, and ``next_time`` the one for which it waits now, None if it does not wait:
    both as the model has them. ``seconds`` is how long the run took; ``attempt`` counts from 1.
    """

    code: str
    num: str
    when: datetime
    handler: TaskHandler
    outcome: str
    exception: BaseException | None
    next_time: datetime | None
    seconds: float
    attempt: int

    def __str__(self) -> str:
        error = "" if self.exception is None else f" ({self.exception!r})"
        return f"{self.code}/{self.num} {self.outcome}{error}"


class SignalFacts(NamedTuple):
    """The facts that a run's signal tells."""

    outcome: str
    seconds: float
    exception: BaseException | None


NOTHING = SignalFacts("done", 0.0, None)
_WORDS: dict[Signal, str] = {
    signals.task_succeeded: "done",
    signals.task_rescheduled: "rescheduled",
    signals.task_retried: "retried",
    signals.task_failed: "failed",
}


class Witness:
    """Hears of the runs of this thread."""

    def __init__(self) -> None:
        self._told: dict[RunningTask, SignalFacts] = {}
        self._thread = get_ident()

    def told_of(self, task: RunningTask) -> SignalFacts:
        """The facts of one run; of one that was told of by nobody, that it took no time."""
        return self._told.get(task, NOTHING)

    @contextmanager
    def listening(self) -> Iterator[None]:
        for signal in _WORDS:
            signal.connect(self._hear)
        try:
            yield
        finally:
            for signal in _WORDS:
                signal.disconnect(self._hear)

    def _hear(self, signal: Signal, **facts: Any) -> None:
        if get_ident() == self._thread:
            seconds, error = facts.get("seconds", 0.0), facts.get("exception")
            self._told[facts["task"]] = SignalFacts(_WORDS[signal], seconds, error)
