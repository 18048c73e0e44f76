"""Lengths of time in words, as ``timesince`` has them."""

from datetime import datetime
from typing import Any

from django.utils.timesince import timesince
from django.utils.translation import gettext, npgettext, npgettext_lazy, pgettext

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


def between(start: datetime, end: datetime) -> str:
    """The time between two moments in our words, or in Django's where our catalogues have none."""
    if npgettext("length of time", "%(num)d month", "%(num)d months", 1) == "%(num)d month":
        return timesince(start, end)
    text = timesince(start, end, time_strings=_LENGTHS)
    return text.replace(gettext(", "), pgettext("length of time", ", "))
