"""Times and lengths of time as people type them."""

import re
from datetime import date, datetime, time, timedelta, timezone

from django.utils import timezone as django_timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks.exceptions import TaskValueError
from django_tasks.schedules.durations import is_duration_word, read_units, to_timedelta
from django_tasks.timezones import aware

_OF_DAY = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?", re.ASCII)
TIMES = _('such as "2026-11-23 04:00", "04:00", "midnight", "yesterday", or "2h"')


def length(field: str, text: str) -> timedelta:
    """A length of time such as "30m" or "1 day 12 hours"."""
    words = text.split()
    try:
        if not words or not all(map(is_duration_word, words)):
            raise ValueError(gettext("is no length of time, such as 30m, 2h30m or 7 days"))
        units = read_units(words)
        if units.keys() & {"years", "months"}:
            raise ValueError(gettext("has months or years, which are not of one length: say days"))
        return to_timedelta(units)
    except (ValueError, OverflowError) as error:
        problem = gettext("is too long") if isinstance(error, OverflowError) else str(error)
        raise TaskValueError(field, text, problem) from None


def past(field: str, text: str, now: datetime) -> datetime:
    """A time that has been, aware UTC: "2h" is two hours ago, "22:00" the last time it was so."""
    return _moment(field, text, now, is_past=True)


def future(field: str, text: str, now: datetime) -> datetime:
    """A time to come, aware UTC: "2h" is in two hours, "04:00" the next time it is so.

    One that was written with its date may lie in the past: then it is due at once.
    """
    return _moment(field, text, now, is_past=False)


def _moment(field: str, text: str, now: datetime, *, is_past: bool) -> datetime:
    text = text.strip()
    if text.split() and all(map(is_duration_word, text.split())) and not text.isdecimal():
        span = length(field, text)
        try:
            return aware(field, now - span if is_past else now + span)
        except OverflowError:
            raise TaskValueError(field, text, gettext("is out of the range of times")) from None
    here = now.astimezone(django_timezone.get_current_timezone())
    if (day := _day(text, here.date(), is_past=is_past)) is not None:
        return aware(field, _at(day, time(0)))
    if text == "now":
        return now
    if _OF_DAY.fullmatch(text):
        return _next_or_last(field, text, here, is_past=is_past)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise TaskValueError(
            field, text, gettext("must be a time, %(times)s") % {"times": TIMES}
        ) from None
    return aware(field, read)


def _day(text: str, today: date, *, is_past: bool) -> date | None:
    midnight = 0 if is_past else 1
    days = {"midnight": midnight, "today": 0, "yesterday": -1, "tomorrow": 1}
    return today + timedelta(days=days[text]) if text in days else None


def _next_or_last(field: str, text: str, here: datetime, *, is_past: bool) -> datetime:
    try:
        of_day = time.fromisoformat(text.zfill(len(text) + (text[1] == ":")))
    except ValueError:
        raise TaskValueError(field, text, gettext("is no time of day")) from None
    now = here.astimezone(timezone.utc)
    days = (here.date() + timedelta(days=number) for number in (-1, 0, 1))
    found = [aware(field, moment) for day in days for moment in _both(_at(day, of_day))]
    if is_past:
        return max(moment for moment in found if moment <= now)
    return min(moment for moment in found if moment >= now)


def _both(moment: datetime) -> tuple[datetime, ...]:
    second = moment.replace(fold=1)
    # In UTC: Python compares times of one zone by their hands, which are the same.
    is_twice = moment.astimezone(timezone.utc) < second.astimezone(timezone.utc)
    return (moment, second) if is_twice else (moment,)


def _at(day: date, of_day: time) -> datetime:
    return datetime.combine(day, of_day, django_timezone.get_current_timezone())
