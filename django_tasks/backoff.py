"""The wait before a failed task is tried again. Plain values, no Django."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from django_tasks.sentences import sentence as _

Duration = timedelta | float  # a bare number is seconds


def seconds(duration: Duration) -> float:
    """``duration`` in seconds; TypeError or ValueError when it is no duration at all."""
    if isinstance(duration, timedelta):
        value = duration.total_seconds()
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        value = float(duration)
    else:
        raise TypeError(
            _("a timedelta or a number of seconds is wanted, not %(duration)r", duration=duration)
        )
    if not 0 <= value < float("inf"):
        raise ValueError(_("a duration cannot be %(duration)r", duration=duration))
    return value


class Backoff(Protocol):
    """Anything with ``delay``: attempt number (1 after the first failure) to seconds."""

    def delay(self, attempt: int) -> float: ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential with full jitter: a random delay between 0 and ``first * factor ** (n - 1)``.

    ``first`` and ``cap`` are seconds or timedeltas; no delay is longer than ``cap``.
    """

    first: Duration = 10
    factor: float = 2.0
    cap: Duration = 3600

    def __post_init__(self) -> None:
        seconds(self.first)
        seconds(self.cap)
        seconds(self.factor)  # a number, not negative and not infinite, is asked for here too

    def delay(self, attempt: int) -> float:
        try:
            longest = min(seconds(self.cap), seconds(self.first) * self.factor ** (attempt - 1))
        except OverflowError:
            longest = seconds(self.cap)
        return random.uniform(0, longest)


class ByError:
    """A backoff that is asked with the error of a run. Without one it is the default backoff."""

    def delay(self, attempt: int) -> float:
        return Exponential().delay(attempt)

    def delay_after(self, error: BaseException, task: Any) -> Duration | None:
        """The wait after a run of ``task`` (RunningTask) that raised ``error``; None: the last."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Delays:
    """A list of delays; the last one repeats."""

    delays: tuple[float, ...]

    def delay(self, attempt: int) -> float:
        return self.delays[min(attempt, len(self.delays)) - 1]


def as_backoff(value: Backoff | Duration | Sequence[Duration]) -> Backoff:
    """A ``Backoff`` from what a handler may say: one itself, a delay, or a list of delays.

    Raises TypeError or ValueError for anything else.
    """
    if isinstance(value, (int, float, timedelta)):
        return Delays((seconds(value),))
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError(_("a list of delays cannot be empty"))
        return Delays(tuple(seconds(item) for item in value))
    if callable(getattr(value, "delay", None)) and not isinstance(value, type):
        return value  # type: ignore[return-value]  # the Protocol has just been checked
    raise TypeError(
        _("a backoff is a delay, a list of delays or has delay(), not %(value)r", value=value)
    )
