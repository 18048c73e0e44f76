"""Values, times and lengths of time as the pages show them; times are in the reader's zone.

Markup with classes alone: the style sheet says what they look like.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.timesince import timesince
from django.utils.translation import gettext, ngettext, npgettext, npgettext_lazy, pgettext

from django_tasks.conf import options
from django_tasks.reads.words import Amount, at, distance_text, stamp
from django_tasks.timezones import aware

LONG_CELL = 200  # characters of one cell of a list
# Characters of an error, from its end, that are read for its message: it may have many lines.
ERROR_TAIL = 1000
# Of a longer text a task's page shows a part, and a longer payload cannot be edited there: as a
# form it would exceed DATA_UPLOAD_MAX_MEMORY_SIZE, and browsers choke on it.
LONG_TEXT = 100_000
# Our own words for them. In Chinese Django's "1 month" and "1 day" are a month of the calendar and
# a day of it.
_LENGTHS: dict[str, Any] = {
    "year": npgettext_lazy("length of time", "%(num)d year", "%(num)d years", "num"),
    "month": npgettext_lazy("length of time", "%(num)d month", "%(num)d months", "num"),
    "week": npgettext_lazy("length of time", "%(num)d week", "%(num)d weeks", "num"),
    "day": npgettext_lazy("length of time", "%(num)d day", "%(num)d days", "num"),
    "hour": npgettext_lazy("length of time", "%(num)d hour", "%(num)d hours", "num"),
    "minute": npgettext_lazy("length of time", "%(num)d minute", "%(num)d minutes", "num"),
}
_START = datetime(2000, 1, 1)


def as_json(value: Any, indent: int | None = None) -> str:
    """A payload as it would be stored, for people."""
    return json.dumps(value, cls=options().payload_encoder, ensure_ascii=False, indent=indent)


def shown(part: str, whole: str) -> str:
    """A part of a text, line by line, and how long the whole is if that is more."""
    text = format_html('<pre class="task-text">{}</pre>', part)
    if len(part) == len(whole):
        return text
    sizes = {"shown": len(part), "all": len(whole)}
    note = gettext("%(shown)d of %(all)d characters are shown.") % sizes
    return format_html('{}<p class="small quiet">{}</p>', text, note)


def cell(text: str) -> str:
    return text if len(text) <= LONG_CELL else f"{text[: LONG_CELL - 1]}…"


def in_brackets(text: str) -> str:
    """The words in brackets behind a word, with the blank before them; nothing for nothing."""
    return gettext(" (%(text)s)") % {"text": text} if text else ""


def told(value: datetime) -> str:
    """A value of a column, or aware UTC, to the second and with its zone."""
    return stamp(aware("when", value))


def moment_field(
    model: type[Model], column: str, precision: str = "seconds"
) -> Callable[[Any, Any], str]:
    """A field for reading that shows a column with times as all pages do."""
    field: Any = model._meta.get_field(column)

    @admin.display(description=field.verbose_name)
    def shown_moment(page: Any, row: Any) -> str:
        value: datetime | None = getattr(row, column)
        return stamp(aware(column, value), precision) if value else page.get_empty_value_display()

    return shown_moment


def told_with_day(value: datetime) -> str:
    """The same behind the name of its day."""
    day = date_format(aware("when", value).astimezone(timezone.get_current_timezone()), "D")
    return f"{day} {told(value)}"


def zone_name() -> str:
    """The name of the reader's zone."""
    return timezone.get_current_timezone_name()


def distance(moment: datetime, now: datetime) -> str:
    """The distance to a moment, ahead or ago, in words."""
    if moment > now:
        return gettext("in %(time)s") % {"time": _span(now, moment)}
    return gettext("%(time)s ago") % {"time": _span(moment, now)}


def length(seconds: float) -> str:
    """A length of time in words."""
    return _span(_START, _START + timedelta(seconds=int(seconds)))


def _span(start: datetime, end: datetime) -> str:
    seconds = int((end - start).total_seconds())
    if seconds < 60:
        return ngettext("%(count)d second", "%(count)d seconds", seconds) % {"count": seconds}
    if npgettext("length of time", "%(num)d month", "%(num)d months", 1) == "%(num)d month":
        return timesince(start, end)
    text = timesince(start, end, time_strings=_LENGTHS)
    return text.replace(gettext(", "), pgettext("length of time", ", "))


def duration(seconds: float) -> str:
    """As exact as it is of interest."""
    if abs(seconds) < 1:
        return gettext("%(count).1f ms") % {"count": 1000 * seconds}
    if abs(seconds) < 60:
        return gettext("%(count).1f s") % {"count": seconds}
    return str(timedelta(seconds=round(seconds)))


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


def key_of(row: Any) -> str:
    """The key of a task or a run."""
    template = '<span class="task-code">{}</span> <span class="task-number">{}</span>'
    return format_html(template, row.biz_code, row.biz_num)


def number_of_tasks(count: int, is_more: bool) -> str:
    text = ngettext("%(number)s task", "%(number)s tasks", count)
    return text % {"number": Amount(count, is_more)}
