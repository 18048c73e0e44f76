"""Time as a value: the database's UTC, carried forward by a clock of the host that never jumps.

A wrong or jumping host clock therefore makes nothing early, late or stolen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django_tasks.host.clocks import ticks


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One look at the database's clock.

    ``utc`` is aware; ``monotonic`` is the host's reading taken *after* the answer arrived, so
    that ``now`` lags behind the database by at most one round trip and never runs ahead of it:
    nothing starts before its time.
    """

    utc: datetime
    monotonic: float

    def at(self, monotonic_seconds: float) -> datetime:
        """The database's time when the host's monotonic clock shows ``monotonic_seconds``."""
        return self.utc + timedelta(seconds=monotonic_seconds - self.monotonic)


class Tick(NamedTuple):
    """A moment whose time of day is computed when somebody asks for it."""

    reading: ClockReading
    monotonic: float

    @property
    def utc(self) -> datetime:
        """The database's time then, aware UTC."""
        return self.reading.at(self.monotonic)


class Clock:
    """The clock of one worker. ``set`` by its heartbeat, read by everybody."""

    def __init__(self, reading: ClockReading, ticks: Callable[[], float] = ticks) -> None:
        self._reading = reading
        self._ticks = ticks

    @property
    def reading(self) -> ClockReading:
        """The last look at the database's clock."""
        return self._reading

    def set(self, reading: ClockReading) -> None:
        self._reading = reading  # one reference: readers in other threads see old or new, whole

    def now(self) -> datetime:
        """The database's time, aware UTC."""
        return self._reading.at(self._ticks())

    def tick(self) -> Tick:
        """``now``, for those who hardly ever look at it."""
        return Tick(self._reading, self._ticks())

    def seconds_to(self, moment: datetime) -> float:
        """Seconds until it is ``moment``, 0 or less when that has passed."""
        return (moment - self.now()).total_seconds()

    def monotonic(self) -> float:
        """Seconds on the host's monotonic clock, for durations."""
        return self._ticks()
