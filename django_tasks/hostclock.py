"""The host's clocks, as they are: no test that freezes time, and no suspended host, fools them.

Their functions are taken at import and kept in a closure: freezegun goes over the attributes of all
modules and replaces every function of ``time`` that it finds there.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _taken() -> tuple[Callable[[], float], Callable[[], float]]:
    wall, read = time.time, getattr(time, "clock_gettime", None)
    # CLOCK_BOOTTIME goes on while the host is suspended, as the leases in the database do.
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    if read is None or boot is None:
        return time.monotonic, wall
    return lambda: read(boot), wall


_CLOCKS = _taken()


def ticks() -> float:
    """Seconds since some moment, never set back, that go on while the host is suspended."""
    return _CLOCKS[0]()


def utc_now() -> datetime:
    """The host's time of day, aware UTC."""
    return EPOCH + timedelta(seconds=_CLOCKS[1]())
