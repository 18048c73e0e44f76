"""Times as the pages tell them: to the second, with their zone, in that of the reader."""

from datetime import datetime

from django.utils import formats, timezone

from django_tasks.monitoring.words import stamp
from django_tasks.timezones import aware


def told(value: datetime) -> str:
    """A value of a column, or aware UTC."""
    return stamp(aware("when", value))


def told_with_day(value: datetime) -> str:
    """The same behind the name of its day."""
    day = formats.date_format(aware("when", value).astimezone(timezone.get_current_timezone()), "D")
    return f"{day} {told(value)}"


def zone_name() -> str:
    """The name of the reader's zone."""
    return timezone.get_current_timezone_name()
