"""Values as the pages show them."""

import json
from datetime import datetime, timedelta
from typing import Any

from django.utils.html import format_html
from django.utils.translation import gettext, ngettext

from django_tasks.admin import lengths
from django_tasks.conf import options
from django_tasks.models import Pause

LONG_CELL = 200  # characters of one cell of a list
# Of a longer text a task's page shows a part, and a longer payload cannot be edited there: as a
# form it would exceed DATA_UPLOAD_MAX_MEMORY_SIZE, and browsers choke on it.
LONG_TEXT = 100_000


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


def distance(moment: datetime, now: datetime) -> str:
    """The distance to a moment, ahead or ago, in words."""
    if moment > now:
        return gettext("in %(time)s") % {"time": _span(now, moment)}
    return gettext("%(time)s ago") % {"time": _span(moment, now)}


def _span(start: datetime, end: datetime) -> str:
    seconds = int((end - start).total_seconds())
    if seconds >= 60:
        return lengths.between(start, end)
    return ngettext("%(count)d second", "%(count)d seconds", seconds) % {"count": seconds}


def duration(seconds: float) -> str:
    """As exact as it is of interest."""
    if abs(seconds) < 1:
        return gettext("%(count).1f ms") % {"count": 1000 * seconds}
    if abs(seconds) < 60:
        return gettext("%(count).1f s") % {"count": seconds}
    return str(timedelta(seconds=round(seconds)))


def scope_name(pause: Pause) -> str:
    """The scope of a pause, in words."""
    names = {"code": pause.biz_code, "queue": pause.queue}
    if pause.biz_code and pause.queue:
        return gettext("code %(code)s in queue %(queue)s") % names
    if pause.biz_code:
        return gettext("code %(code)s") % names
    return gettext("queue %(queue)s") % names if pause.queue else gettext("everything")
