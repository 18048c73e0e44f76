"""Time that freezegun or time-machine has frozen or moved, if one of them is at work.

Neither is imported: one that nobody has imported is not at work.
"""

import sys
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from django.conf import settings
from django.utils.timezone import get_default_timezone

from django_tasks.host.clocks import EPOCH


def frozen_now() -> datetime | None:
    """The time that the host's clock is made to show, aware UTC; None if nobody has touched it.

    The innermost of several. Where both libraries are at work, freezegun's.
    """
    moment = _of_freezegun()
    return _of_time_machine() if moment is None else moment


def _of_freezegun() -> datetime | None:
    """Asked of the library itself: its functions answer some modules only."""
    factories: Any = getattr(sys.modules.get("freezegun.api"), "freeze_factories", None)
    if not factories:
        return None
    moment: datetime = factories[-1]()  # naive, in UTC, of a class of its own
    if settings.USE_TZ:
        return _plain(moment, timezone.utc)
    # Whoever goes without zones sees datetime.now(), and takes it for the time of TIME_ZONE.
    offset: timedelta = sys.modules["freezegun.api"].tz_offsets[-1]
    return _plain(moment + offset, get_default_timezone()).astimezone(timezone.utc)


def _plain(moment: datetime, zone: tzinfo) -> datetime:
    return EPOCH.replace(
        *(moment.year, moment.month, moment.day),
        *(moment.hour, moment.minute, moment.second, moment.microsecond),
        tzinfo=zone,
    )


def _of_time_machine() -> datetime | None:
    """It replaces the method itself, so each class of datetimes tells its time."""
    hatch: Any = getattr(sys.modules.get("time_machine"), "escape_hatch", None)
    if hatch is None or not hatch.is_travelling():
        return None
    return type(EPOCH).now(timezone.utc)
