"""APScheduler's fields of cron, by name: ``day_of_week=mon-fri hour=9 minute=*/5``.

All of them must match. A field left out is ``*``; behind the least significant one that is given
it is its first value, so that ``hour=9`` means 9:00:00.
"""

import re
from bisect import bisect_left
from calendar import isleap, monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date as Date
from datetime import datetime, time, timedelta
from functools import cached_property, lru_cache

from django_tasks.exceptions import TaskValueError
from django_tasks.schedules.base import LONGEST, SOMEWHERE
from django_tasks.schedules.budget import step
from django_tasks.schedules.field_texts import (
    FIELDS,
    HOUR,
    MINUTE,
    NAMES,
    ORDINALS,
    SECONDS,
    WEEKDAYS,
    YEAR,
    canonical,
    positions_of,
    values_of,
)
from django_tasks.sentences import sentence as _

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)

_NEXT_FIELD = re.compile(r"\s+(?=\w+=)")


@dataclass(frozen=True)
class Fields:
    """The text of each field, in its canonical spelling and the order of ``FIELDS``."""

    texts: tuple[str, ...]

    @property
    def hours(self) -> str:
        return self.texts[FIELDS.index(HOUR)]

    @property
    def opening(self) -> datetime:
        """No time is earlier, in whatever zone, or it does not matter which is the first."""
        if self.texts[0] == "*":
            return SOMEWHERE
        return SOMEWHERE.replace(year=self._years[0]) - DAY

    def walls(self, after: datetime) -> Iterator[datetime]:
        """The wall times strictly later than ``after``; they know no daylight saving time."""
        wall: datetime | None = after
        while wall is not None and (wall := self._after(wall)) is not None:
            yield wall

    def __str__(self) -> str:
        """The fields that say something; the hour and the minute always, for people to see."""
        return " ".join(
            f"{field.name}={text}"
            for field, text in zip(FIELDS, self.texts, strict=True)
            if field in (HOUR, MINUTE) or text != ("0" if field is SECONDS else "*")
        )

    # Times

    @cached_property
    def _years(self) -> Sequence[int]:
        return values_of(YEAR, self.texts[0])

    @cached_property
    def _clock(self) -> tuple[Sequence[int], ...]:
        return tuple(map(values_of, FIELDS[-3:], self.texts[-3:]))

    def _after(self, wall: datetime) -> datetime | None:
        try:
            earliest = wall.replace(microsecond=0) + SECOND
        except OverflowError:
            return None
        date = self._date(earliest.date())
        if date == earliest.date() and (at := self._time(earliest.time())) is not None:
            return datetime.combine(date, at)
        if date == earliest.date():
            date = None if date == Date.max else self._date(date + DAY)
        if date is None:
            return None
        hours, minutes, seconds = self._clock
        return datetime.combine(date, time(hours[0], minutes[0], seconds[0]))

    def _time(self, earliest: time) -> time | None:
        hours, minutes, seconds = self._clock
        hour, minute = earliest.hour, earliest.minute
        if hour in hours and minute in minutes:
            second = _from(seconds, earliest.second)
            if second is not None:
                return time(hour, minute, second)
        if hour in hours and (later := _from(minutes, minute + 1)) is not None:
            return time(hour, later, seconds[0])
        if (later := _from(hours, hour + 1)) is not None:
            return time(later, minutes[0], seconds[0])
        return None

    def _date(self, earliest: Date) -> Date | None:
        for place in range(bisect_left(self._years, earliest.year), len(self._years)):
            year = self._years[place]
            if year > earliest.year:  # after forty years all kinds of years are known
                step(4 if year <= earliest.year + 40 else not year % 4)
            days = _days(self.texts[1:5], _alike(year))
            day = _from(days, earliest.timetuple().tm_yday if year == earliest.year else 1)
            if day is not None:
                return Date(year, 1, 1) + (day - 1) * DAY
        return None


def fields_of(given: Mapping[str, object]) -> Fields:
    """The fields that are given by name, an int or a text each, and the rest as APScheduler has it.

    Raises TaskTypeError and TaskValueError, which name the field, for what is none.
    """
    least = max(place for place, field in enumerate(FIELDS) if field.name in given)
    return Fields(
        tuple(
            canonical(field, given[field.name])
            if field.name in given
            else ("*" if place < least else field.default)
            for place, field in enumerate(FIELDS)
        )
    )


def read_fields(text: str) -> Fields:
    """The fields that a text like ``day=last fri hour=9`` gives.

    Raises TaskValueError for one that is too long or has an unknown field, one twice, or one that
    is none.
    """
    if len(text) > LONGEST:
        raise TaskValueError(
            "cron", text, _("is longer than %(longest)s characters", longest=f"{LONGEST:,}")
        )
    given: dict[str, object] = {}
    for part in _NEXT_FIELD.split(text.strip()):
        name, _equals, value = part.partition("=")
        name = name.lower()
        if name not in NAMES:
            raise TaskValueError(
                "cron", part, _("has a field that is none of %(names)s", names=", ".join(NAMES))
            )
        if name in given:
            raise TaskValueError(name, value, _("is there twice"))
        given[name] = value
    return fields_of(given)


def is_open(text: str, following: str) -> bool:
    """Tell if a field's text goes on with the word behind it: ``last`` with ``fri``."""
    items = text.lower()
    if items.endswith(","):
        return True
    return items.endswith(ORDINALS) and following.lower().partition(",")[0] in WEEKDAYS


def _from(values: Sequence[int], least: int) -> int | None:
    place = bisect_left(values, least)
    return values[place] if place < len(values) else None


@lru_cache(maxsize=4096)
def _days(texts: tuple[str, ...], year: int) -> tuple[int, ...]:
    months, days, weeks, weekdays = map(values_of, FIELDS[1:5], texts)
    positions = positions_of(texts[1])

    def matches(date: Date) -> bool:
        return (
            date.weekday() in weekdays
            and (texts[2] == "*" or date.isocalendar()[1] in weeks)
            and (date.day in days or not positions.isdisjoint(_positions(date)))
        )

    dates = (
        Date(year, month, day)
        for month in months
        for day in range(1, monthrange(year, month)[1] + 1)
        if positions or day in days
    )
    return tuple(date.timetuple().tm_yday for date in dates if matches(date))


def _positions(date: Date) -> Iterator[str]:
    """The names of a date in its month: ``5th fri``, ``last fri``, ``last``."""
    weekday, length = WEEKDAYS[date.weekday()], monthrange(date.year, date.month)[1]
    yield f"{ORDINALS[(date.day - 1) // 7]} {weekday}"
    if date.day + 7 > length:
        yield f"last {weekday}"
    if date.day == length:
        yield "last"


def _kind(year: int) -> tuple[int, bool, bool]:
    """All that days and weeks of a year depend on: its first may be in a week of the one before."""
    return Date(year, 1, 1).weekday(), isleap(year), isleap(year - 1)


# The calendar repeats after 400 years; of all years there are two dozen kinds.
_KINDS = {_kind(year): year for year in range(2000, 2400)}


def _alike(year: int) -> int:
    return _KINDS[_kind(year)]
