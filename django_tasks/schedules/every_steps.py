"""The steps of ``Every``: exact durations, or dates on a calendar with a time of day."""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

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
    """A number of months, or of days (one of them is 0), at a time of day."""

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
        """The wall times from the last one that may be before ``wall`` on."""
        step = self.days or self.months
        number = origin + (self._number_of(wall.date()) - origin) // step * step
        while True:
            try:
                found = date.fromordinal(number) if self.days else self._day_of(number)
            except (ValueError, OverflowError):  # behind the last year there is
                return
            yield datetime.combine(found, self.at)
            number += step

    def _number_of(self, of: date) -> int:
        """The number of a day, or of a month: what steps are counted in."""
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
        return timedelta(days=self.days) or self.months * SHORTEST_MONTH

    def floats(self) -> bool:
        return self.days > 1 or bool(self.months and YEAR % self.months)

    def __str__(self) -> str:
        at = self.at.isoformat("auto" if self.at.second or self.at.microsecond else "minutes")
        day = f" on day {self.day}" if self.months else ""
        return f"{self._step()}{day} at {at} {self.clock.tz}"

    def _step(self) -> str:
        for number, name, size in (
            (self.months, "year", YEAR),
            (self.months, "month", 1),
            (self.days, "week", 7),
            (self.days, "day", 1),
        ):
            if number and number % size == 0:
                many = number // size
                return f"{many} {name}" if many == 1 else f"{many} {name}s"
        raise AssertionError("neither months nor days")
