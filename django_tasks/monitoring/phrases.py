"""Times in words, for sentences and for terminals. No markup."""

from datetime import datetime

from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext

from django_tasks.models import Pause
from django_tasks.monitoring.words import span


def distance_text(moment: datetime, now: datetime) -> str:
    """The distance to a moment, ahead or ago."""
    seconds = (moment - now).total_seconds()
    sentence = gettext("in %(span)s") if seconds > 0 else gettext("%(span)s ago")
    return sentence % {"span": span(abs(seconds))}


def attempts_text(count: int) -> str:
    return ngettext("%(count)d attempt", "%(count)d attempts", count) % {"count": count}


def scope_name(pause: Pause) -> str:
    """The scope of a pause, in words."""
    names = {"code": pause.biz_code, "queue": pause.queue}
    if pause.biz_code and pause.queue:
        return gettext("code %(code)s in queue %(queue)s") % names
    if pause.biz_code:
        return gettext("code %(code)s") % names
    return gettext("queue %(queue)s") % names if pause.queue else gettext("everything")


def scope_words(pause: Pause) -> str:
    """The same as the beginning of a sentence."""
    return capfirst(scope_name(pause))
