"""Cells of the lists. Markup with classes alone: the style sheet says what they look like."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone as django_timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext, pgettext

from django_tasks.admin import lengths
from django_tasks.admin.display import distance
from django_tasks.timezones import aware

_START = datetime(2000, 1, 1)
# Characters of an error, from its end, that are read for its message: it may have many lines.
ERROR_TAIL = 1000


def badge(kind: str, label: Any) -> str:
    return format_html('<span class="task-badge task-{}">{}</span>', kind, label)


def labelled(label: Any, value: Any) -> str:
    """A value whose column has no head where the rows are cards."""
    return format_html('<span class="task-label">{}</span> {}', label, value)


def moment(value: datetime, precision: str = "seconds") -> str:
    """A time to the second or as exact as ``isoformat`` is told, with its zone, in the reader's."""
    local = aware("when", value).astimezone(django_timezone.get_current_timezone())
    return f"{local.replace(tzinfo=None).isoformat(' ', precision)} {local.tzname()}"


def moment_and_distance(value: datetime, now: datetime, late: float = 0.0) -> str:
    away: Any = distance(aware("when", value), now)
    if late:
        text = pgettext("task", "%(time)s late") % {"time": length(late)}
        away = format_html('<span class="task-late">{}</span>', text)
    return format_html(
        '<span class="task-time">{}</span> <span class="task-away">{}</span>', moment(value), away
    )


def length(seconds: float) -> str:
    """A length of time in words."""
    whole = int(seconds)
    if whole < 60:
        return ngettext("%(count)d second", "%(count)d seconds", whole) % {"count": whole}
    return lengths.between(_START, _START + timedelta(seconds=whole))


def amount(count: int, is_more: bool) -> str:
    """A number of rows that was counted up to a limit."""
    number = number_format(count, force_grouping=True)
    return gettext("more than %(number)s") % {"number": number} if is_more else number


def number_of_tasks(count: int, is_more: bool) -> str:
    text = ngettext("%(number)s task", "%(number)s tasks", count)
    return text % {"number": amount(count, is_more)}
