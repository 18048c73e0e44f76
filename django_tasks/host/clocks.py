"""The host's clocks, as they are: no test that freezes time, and no suspended host, fools them.

freezegun replaces the functions of ``time``, and the class ``datetime``, among the attributes of
every module. time-machine replaces the C function behind ``clock_gettime(CLOCK_REALTIME)`` for
everybody, however it was taken. Neither of them touches the other clocks of ``clock_gettime``.
"""

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from threading import Event

# Made by the real class, even if this module is imported while time is frozen.
_REAL = next(kind for kind in datetime.__mro__ if kind.__module__ == "datetime")
EPOCH: datetime = _REAL(1970, 1, 1, tzinfo=timezone.utc)

# Linux's CLOCK_REALTIME_COARSE, which ``time`` does not name: the time of day at the last tick of
# the kernel, at most 10 ms ago.
_COARSE = 5
# Two readings that differ by more than this are not of the same clock.
_DOUBT_SECONDS = 0.1


def _reader(name: str, number: int | None = None) -> Callable[[], float] | None:
    number = getattr(time, name, number)
    if number is None:
        return None
    try:
        time.clock_gettime(number)
    except (AttributeError, OSError):
        return None
    return partial(time.clock_gettime, number)


def _coarse() -> Callable[[], float] | None:
    return _reader("CLOCK_REALTIME_COARSE", _COARSE if sys.platform == "linux" else None)


# Seconds since some moment, never set back. CLOCK_BOOTTIME goes on while the host is suspended, as
# the leases in the database do. No function of ours: each run reads it several times. And a partial
# is nothing that freezegun replaces.
ticks: Callable[[], float] = (
    _reader("CLOCK_BOOTTIME") or _reader("CLOCK_MONOTONIC") or partial(time.monotonic)
)
# In a tuple, where freezegun finds nothing to replace.
_WALLS = (_reader("CLOCK_REALTIME") or time.time, _coarse())


def pause(seconds: float) -> None:
    """Wait, in seconds: time.sleep() raises under some false clocks.

    By a lock that nobody else knows: an interrupt of the thread may leave it locked.
    """
    Event().wait(seconds)


def utc_now() -> datetime:
    """The host's time of day, aware UTC.

    On Linux also while time-machine travels: the coarse clock of the kernel tells that the time was
    moved, and is taken instead.
    """
    wall, coarse = _WALLS
    seconds = wall()
    if coarse is not None and abs(seconds - (checked := coarse())) > _DOUBT_SECONDS:
        seconds = checked
    return EPOCH + timedelta(seconds=seconds)
