"""Times of day as people write them: 09:00, 23:59:30, 9am, 6:30 pm, noon."""

import re
from datetime import time

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _

MIDNIGHT = time()
_NAMED = {"noon": time(12), "midnight": MIDNIGHT}
_TIME = re.compile(
    r"([0-9]{1,2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?)? ?([ap]m)?", re.IGNORECASE
)


def time_of_day(at: object) -> time:
    """A time without a zone, of one or of a text. An hour alone is a full one.

    Raises TaskTypeError for what is neither, TaskValueError for a text that is no time of day and
    for a time with a zone of its own.
    """
    if isinstance(at, time):
        if at.tzinfo is not None:
            raise TaskValueError("at", at, _("must have no time zone of its own: give it as tz"))
        return at.replace(fold=0)
    if not isinstance(at, str):
        raise TaskTypeError("at", at, _("must be a time of day, like '09:00'"))
    if at.lower() in _NAMED:
        return _NAMED[at.lower()]
    if (match := _TIME.fullmatch(at)) is None:
        raise TaskValueError("at", at, _("must be a time of day, like '09:00', '9am' or 'noon'"))
    hour, minute, second, fraction, half = match.groups(default="0")
    try:
        return time(_hour(int(hour), half), int(minute), int(second), int(fraction.ljust(6, "0")))
    except ValueError as error:
        raise TaskValueError(
            "at", at, _("must be a time of day (%(error)s)", error=error)
        ) from None


def _hour(hour: int, half: str) -> int:
    if half == "0":
        return hour
    if not 1 <= hour <= 12:
        raise ValueError(_("hour must be in 1..12 before am and pm"))
    return hour % 12 + (12 if half.lower() == "pm" else 0)
