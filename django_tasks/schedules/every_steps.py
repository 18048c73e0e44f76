"""The steps of ``Every``: exact durations, or dates on a calendar with a time of day."""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from django_tasks.schedules.budget import step
from django_tasks.schedules.durations import format_duration
from django_tasks.schedules.wall_clock import WallClock

YEAR = 12
SHORTEST_MONTH = timedelta(days=28)
LONGEST_MONTH = 31


@dataclass(frozen=True)
class Exact:
    """An exact duration, again and again, on the beat of a moment."""

    interval: timedelta

    def first(self, beat: datetime, started: bool, after: datetime) -> datetime:
        """The first time on the beat strictly later than ``after``."""
        return beat + ((after - beat) // self.interval + 1) * self.interval

    def shortest(self) -> timedelta:
        return self.interval

    def floats(self) -> bool:
        return True

    def __str__(self) -> str:
        return format_duration(self.interval)


@dataclass(frozen=True)
class Dates:
    """A number of months, or of days, or of months and then days, at a time of day."""

    months: int
    days: int
    day: int  # of the month, 31 being the last; 0 with days
    at: time
    clock: WallClock

    def first(self, beat: datetime, started: bool, after: datetime) -> datetime | None:
        """The first time strictly later than ``after``, counted from the date of ``beat``.

        Months that divide a year are counted from January if nobody ``started`` them elsewhere.
        """
        origin = 0 if not (started or self.floats()) else self._number_of(self._date_of(beat))

        def following(wall: datetime) -> datetime | None:
            return next((each for each in self._walls(origin, wall) if each > wall), None)

        return self.clock.first(following, after)

    def _walls(self, origin: int, wall: datetime) -> Iterator[datetime]:
        dates = self._mixed(origin) if self.is_mixed() else self._regular(origin, wall.date())
        try:
            for found in dates:
                step(2)
                yield datetime.combine(found, self.at)
        except (ValueError, OverflowError):  # behind the last year there is
            return

    def _regular(self, origin: int, near: date) -> Iterator[date]:
        step = self.days or self.months
        number = origin + (self._number_of(near) - origin) // step * step
        while True:
            yield date.fromordinal(number) if self.days else self._day_of(number)
            number += step

    def _mixed(self, origin: int) -> Iterator[date]:
        """All dates from the origin on: nothing but the one before tells a date."""
        found = date.fromordinal(origin)
        while True:
            yield found
            found = _months_later(found, self.months) + timedelta(days=self.days)

    def _number_of(self, of: date) -> int:
        return of.toordinal() if self.days else of.year * YEAR + of.month - 1

    def _day_of(self, month_number: int) -> date:
        year, month = divmod(month_number, YEAR)
        last = monthrange(year, month + 1)[1]
        return date(year, month + 1, min(self.day, last))

    def _date_of(self, beat: datetime) -> date:
        """The date that ``beat`` was meant for; a gap at midnight moves a fire to the next."""
        shown = self.clock.naive(beat)
        yesterday = shown.date() - timedelta(days=1)
        meant = datetime.combine(yesterday, self.at)
        if shown.time() != self.at and beat in self.clock.instants(meant):
            return yesterday
        return shown.date()

    def shortest(self) -> timedelta:
        return timedelta(days=self.days) + self.months * SHORTEST_MONTH

    def floats(self) -> bool:
        return self.is_mixed() or self.days > 1 or bool(self.months and YEAR % self.months)

    def is_mixed(self) -> bool:
        """Tell if it is of months and days."""
        return bool(self.months and self.days)

    def __str__(self) -> str:
        at = self.at.isoformat("auto" if self.at.second or self.at.microsecond else "minutes")
        day = f" on day {self.day}" if self.day else ""
        return f"{' and '.join(self._parts())}{day} at {at} {self.clock.tz}"

    def _parts(self) -> Iterator[str]:
        for number, small, large, size in (
            (self.months, "month", "year", YEAR),
            (self.days, "day", "week", 7),
        ):
            if number:
                many, unit = (number, small) if number % size else (number // size, large)
                yield f"{many} {unit}" if many == 1 else f"{many} {unit}s"


def _months_later(day: date, months: int) -> date:
    """The same day some months later; months that have no such day are stepped over."""
    number = day.year * YEAR + day.month - 1
    while True:
        number += months
        year, month = divmod(number, YEAR)
        if day.day <= monthrange(year, month + 1)[1]:
            return date(year, month + 1, day.day)
