"""Whole numbers, flags and durations as callers give them, checked; the range of times.

One wording for all fields.
"""

from datetime import datetime, timedelta, timezone

from django_tasks.backoff import Duration, seconds
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _

# MySQL's DATETIME begins here; every other supported database goes further back.
EARLIEST = datetime(1000, 1, 2, tzinfo=timezone.utc)
# A day less than the last, so that no time zone can carry it out of the range.
LATEST = datetime.max.replace(tzinfo=timezone.utc) - timedelta(days=1)
OUT_OF_RANGE = _("is out of the databases' range, years 1000 to 9999")


def whole_number(field: str, value: object, least: int, most: int) -> int:
    """``value`` if it is a whole number from ``least`` to ``most``.

    Raises TaskTypeError or TaskValueError, naming ``field``.
    """
    problem = _("must be a whole number from %(least)s to %(most)s", least=least, most=most)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TaskTypeError(field, value, problem)
    if not least <= value <= most:
        raise TaskValueError(field, value, problem)
    return int(value)


def flag(field: str, value: object) -> bool:
    """``value`` if it is True or False. Raises TaskTypeError, naming ``field``."""
    if not isinstance(value, bool):
        raise TaskTypeError(field, value, _("must be True or False"))
    return value


def seconds_between(field: str, value: Duration, least: float, most: float) -> float:
    """A timedelta, or a number of seconds, as seconds from ``least`` to ``most``.

    Raises TaskTypeError or TaskValueError, naming ``field``.
    """
    try:
        duration = seconds(value)
    except TypeError:
        raise TaskTypeError(field, value, _("must be a timedelta or a number of seconds")) from None
    except (ValueError, OverflowError):  # negative, infinite or no number
        duration = -1.0
    if not least <= duration <= most:
        raise TaskValueError(
            field, value, _("must be from %(least)g to %(most)g seconds", least=least, most=most)
        )
    return duration


def duration(field: str, value: object) -> timedelta:
    """A timedelta, or a number of seconds, as a timedelta; not negative.

    Raises TaskTypeError or TaskValueError, naming ``field``.
    """
    length = value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            length = timedelta(seconds=value)
        except (ValueError, OverflowError):
            raise TaskValueError(field, value, _("is no duration")) from None
    if not isinstance(length, timedelta):
        raise TaskTypeError(field, value, _("must be a timedelta or a number of seconds"))
    if length < timedelta(0):
        raise TaskValueError(field, value, _("must not be negative"))
    return length
