"""Between Django's datetimes and ours: everything inside this package is aware UTC."""

from datetime import datetime, timedelta, timezone, tzinfo

from django.conf import settings
from django.utils import timezone as django_timezone

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import EARLIEST, LATEST, OUT_OF_RANGE


def aware(field: str, value: object) -> datetime:
    """``value`` as aware UTC; naive is taken in the current time zone, as Django does.

    Raises TaskTypeError for what is no datetime and TaskValueError for one that some database
    could not store, naming ``field``.
    """
    if type(value) is datetime and value.tzinfo is timezone.utc and EARLIEST <= value <= LATEST:
        return value  # as many are: in a fifth of the time
    if value is None:
        raise TaskTypeError(field, value, _("is missing"))
    if not isinstance(value, datetime):
        raise TaskTypeError(field, value, _("must be a datetime"))
    try:
        moment = django_timezone.make_aware(value) if django_timezone.is_naive(value) else value
        moment = moment.astimezone(timezone.utc)
    except OverflowError:
        moment = LATEST + timedelta(seconds=1)
    if type(moment) is not datetime:
        # Other libraries' datetimes print themselves in their own way, and drivers print them.
        moment = datetime.combine(moment.date(), moment.time(), timezone.utc)
    if not EARLIEST <= moment <= LATEST:
        raise TaskValueError(field, value, OUT_OF_RANGE)
    return moment


def for_django(moment: datetime) -> datetime:
    """An aware datetime as Django's models hold it: naive local time unless ``USE_TZ``."""
    if settings.USE_TZ:
        return moment
    return django_timezone.make_naive(moment, django_timezone.get_default_timezone())


def storable(moment: datetime, zone: tzinfo) -> datetime:
    """``moment`` (aware), or the first one after it that the local times of ``zone`` tell from all
    others.

    The hour that comes twice in autumn reads back from a column of local times as the first one. A
    time in the second would come an hour early, and a task that repeats would run without end
    until it has passed: so it is moved behind it.
    """
    local = moment.astimezone(zone)
    if not local.fold:
        return moment
    # As long as the clock was set back by; by what is left of it, found to the microsecond.
    late = local.replace(fold=0).utcoffset() or timedelta()
    early = local.utcoffset() or timedelta()
    low, high = moment, moment + (late - early)
    while high - low > timedelta.resolution:
        middle = low + (high - low) / 2
        low, high = (middle, high) if middle.astimezone(zone).fold else (low, middle)
    return high
