"""Arguments of schedules, checked: moments, words, names of zones."""

from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django_tasks.exceptions import TaskTypeError, TaskValueError, ValueNotHere
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import EARLIEST, LATEST, OUT_OF_RANGE

UTC = timezone.utc
TICK = timedelta.resolution

Word = TypeVar("Word", bound=str)


def utc(field: str, value: object) -> datetime:
    """An aware datetime as UTC; TaskTypeError for no datetime, TaskValueError for a naive one."""
    if not isinstance(value, datetime):
        raise TaskTypeError(field, value, _("must be a datetime"))
    if value.utcoffset() is None:
        raise TaskValueError(field, value, _("must be aware: give it a time zone"))
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise TaskValueError(field, value, _("is out of the range of datetimes")) from None


def moment(field: str, value: datetime) -> datetime:
    """The same with its offset kept, as a fixed one.

    Datetimes of a zone with a daylight saving time do not equal others in its doubled hour.
    """
    in_utc = utc(field, value)
    offset = value.utcoffset()
    if not EARLIEST <= in_utc <= LATEST:
        raise TaskValueError(field, value, OUT_OF_RANGE)
    return in_utc.astimezone(UTC if not offset else timezone(offset))


def one_of(field: str, value: object, words: tuple[Word, ...], default: Word) -> Word:
    """The one of ``words`` that ``value`` is, or ``default`` for None."""
    if value is None:
        return default
    for word in words:
        if word == value:
            return word
    raise TaskValueError(field, value, _("must be one of %(choices)s", choices=", ".join(words)))


def zone_name(value: object) -> str:
    """The IANA name of ``value``, a name or a zone with one: a ZoneInfo, ``timezone.utc``.

    Raises TaskTypeError for anything else, TaskValueError for a zone that is not known.
    """
    if isinstance(value, tzinfo):
        value = str(value)
    if not isinstance(value, str):
        raise TaskTypeError("tz", value, _("must be the name of a time zone, like Europe/Berlin"))
    if value.upper() == "UTC":
        return "UTC"
    zone(value)
    return value


@lru_cache(maxsize=1024)  # ZoneInfo itself keeps eight, and reads the others from disk again
def zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        reason = error.args[0] if len(error.args) == 1 else error
        raise ValueNotHere(
            "tz", name, _("is no known time zone (%(reason)s)", reason=reason)
        ) from None


def project_zone() -> str | None:
    """The name in ``settings.TIME_ZONE``, as it is now; None where no settings are configured."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        name: str = settings.TIME_ZONE
    except ImproperlyConfigured:
        return None
    return name


def zone_or_default(tz: str | tzinfo | None) -> str:
    """The IANA name of ``tz``, or for None that of the project's zone.

    Raises TaskTypeError for what names no zone, and where there are no settings to name one;
    TaskValueError for a zone that is not known.
    """
    named = project_zone() if tz is None else tz
    if named is None:
        raise TaskTypeError(
            "tz", tz, _("is missing, and there is no settings.TIME_ZONE to stand in")
        )
    return zone_name(named)
