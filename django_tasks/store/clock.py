"""The database's clock, read for callers of all kinds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Lock

from django_tasks.clock import ClockReading
from django_tasks.host import forks
from django_tasks.host.clocks import ticks
from django_tasks.host.interrupts import uninterrupted
from django_tasks.store.dialects import dialect_of

# How long one look at the database's clock serves the clients of a process. Long enough to cost
# nothing, short enough that a host that was suspended is not wrong for long.
CLOCK_SECONDS = 10.0

# The time of a database, aware UTC.
Source = Callable[[str], datetime]

_readings: dict[str, ClockReading] = {}
# Put in by tests of projects alone. Workers read ``read_clock``, so it never moves them.
_stand_in: Source | None = None
_lock = Lock()


@forks.in_child
def _renew_lock() -> None:
    global _lock
    _lock = Lock()


def read_clock(*, using: str) -> ClockReading:
    """Read the database's clock now."""
    return dialect_of(using).read_clock()


def share_a_clock(*, using: str) -> bool:
    """Tell if all workers read the same clock: nodes of a Galera cluster have one each."""
    return not dialect_of(using).is_galera


def now(using: str) -> datetime:
    """The clock of the database ``using``, aware UTC, or what stands in for it."""
    return source()(using)


@uninterrupted
def database_now(using: str) -> datetime:
    """The clock of the database ``using``, aware UTC, read again every ten seconds."""
    with _lock:
        reading = _readings.get(using)
    tick = ticks()
    # A process that goes on in another place (CRIU) may find the host's clock set back.
    if reading is None or not 0 <= tick - reading.monotonic <= CLOCK_SECONDS:
        reading = read_clock(using=using)
        with _lock:
            _readings[using] = reading
        tick = reading.monotonic
    return reading.at(tick)


def source() -> Source:
    """The function that ``now`` asks at present."""
    return _stand_in or database_now


@contextmanager
def replaced(other: Source) -> Iterator[None]:
    """Have ``now`` ask ``other`` meanwhile, in the whole process: see ``django_tasks.testing``."""
    global _stand_in
    before, _stand_in = _stand_in, other
    try:
        yield
    finally:
        _stand_in = before
