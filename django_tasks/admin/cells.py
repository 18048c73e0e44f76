"""Cells of the lists. Markup with classes alone: the style sheet says what they look like."""

from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.translation import ngettext, pgettext

from django_tasks.admin.display import distance, length, told
from django_tasks.monitoring.words import Amount, at, distance_text
from django_tasks.timezones import aware

# Characters of an error, from its end, that are read for its message: it may have many lines.
ERROR_TAIL = 1000


def badge(kind: str, label: Any) -> str:
    return format_html('<span class="task-badge task-{}">{}</span>', kind, label)


def labelled(label: Any, value: Any) -> str:
    """A value whose column has no head where the rows are cards."""
    return format_html('<span class="task-label">{}</span> {}', label, value)


def moment_and_distance(value: datetime, now: datetime, late: float = 0.0) -> str:
    away: Any = distance(aware("when", value), now)
    if late:
        text = pgettext("task", "%(time)s late") % {"time": length(late)}
        away = format_html('<span class="task-late">{}</span>', text)
    return format_html(
        '<span class="task-time">{}</span> <span class="task-away">{}</span>', told(value), away
    )


def time_above_distance(value: datetime, now: datetime) -> str:
    """A time (aware), shortly, and below it how far away it is."""
    away = distance_text(value, now)
    return format_html('{}<br><span class="small quiet">{}</span>', at(value, now), away)


def number_of_tasks(count: int, is_more: bool) -> str:
    text = ngettext("%(number)s task", "%(number)s tasks", count)
    return text % {"number": Amount(count, is_more)}
