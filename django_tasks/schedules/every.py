"""Again and again: every 30 minutes, every month on the last day at 09:00."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules.arguments import UTC, zone, zone_or_default
from django_tasks.schedules.base import Asked, PlanOptions, Schedule, check_options, window
from django_tasks.schedules.budget import step
from django_tasks.schedules.durations import EXACT, format_duration
from django_tasks.schedules.every_steps import LONGEST_MONTH, YEAR, Dates, Exact
from django_tasks.schedules.times_of_day import MIDNIGHT, time_of_day
from django_tasks.schedules.wall_clock import Fold, Gap, wall_clock
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import whole_number

if TYPE_CHECKING:
    from typing import Unpack

USUAL: tuple[Gap, Fold] = ("next", "first")

# A thousand years in days: longer ones are a mistake, and would leave the range of dates.
LONGEST_STEP = 365_250

# Nothing has to be looked at to count exact intervals.
MOST_MULTIPLIED = 1_000_000_000

# Steps of months and days are walked from the start each time.
MOST_WALKED = 1_000

# The names of its own arguments.
OWN = (*("years", "months", *EXACT), *("day", "at", "tz", "gap", "fold"))


@dataclass(frozen=True, repr=False, init=False)
class Every(Schedule):
    """Every so often.

    ``Every(minutes=30)``, ``Every(timedelta(hours=1.5))``: exact durations, on the beat of
    ``start``; without one they go on from the previous time, and first from now.

    ``Every(months=1, day=31, at="09:00", tz="Asia/Shanghai")``: dates on a calendar, if
    ``years``, ``months``, ``day``, ``at`` or ``tz`` is given. ``day=31`` is the last day of a
    shorter month too; ``at`` is a local time. Left out, ``tz`` is ``settings.TIME_ZONE``, and
    ``day`` and ``at`` are those of ``start``, else the first and midnight. Steps are counted from
    the date of ``start``; without one from that of the previous time, or of now; months that
    divide a year from January. ``gap`` and ``fold``: see ``WallClock``; next and first.

    ``Every(months=2, days=8)``: each date is two months, then eight days, after the one before it.
    There is no ``day``, and months that have no such day are stepped over.

    Raises TaskValueError or TaskTypeError for what makes no schedule.
    """

    step: Exact | Dates

    def __init__(
        self,
        interval: timedelta | None = None,
        /,
        *,
        years: int = 0,
        months: int = 0,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        day: int | None = None,
        at: time | str | None = None,
        tz: str | tzinfo | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
        **options: "Unpack[PlanOptions]",
    ) -> None:
        check_options(options, OWN)
        exact = _exact(interval, weeks, days, hours, minutes, seconds)
        if not (years or months or any(each is not None for each in (day, at, tz, gap, fold))):
            if exact <= timedelta(0):
                raise TaskValueError("every", exact, _("must be longer than nothing"))
            self._become(options, step=Exact(exact))
            return
        if hours or minutes or seconds or interval is not None:
            raise TaskValueError(
                "every",
                format_duration(exact),
                _("must be of whole days, weeks, months or years beside dates"),
            )
        months = whole_number("years", years, 0, 1000) * YEAR + whole_number(
            "months", months, 0, 12_000
        )
        in_days = whole_number("weeks", weeks, 0, LONGEST_STEP) * 7 + whole_number(
            "days", days, 0, LONGEST_STEP
        )
        clock = wall_clock(zone_or_default(tz), gap, fold, USUAL)
        start = window(options)["start"]
        shown = start and start.astimezone(zone(clock.tz))
        day = _day(months, in_days, day, shown)
        self._become(options, step=Dates(months, in_days, day, _at(at, shown), clock))

    def _fire(self, asked: Asked) -> datetime | None:
        step()
        return self.step.first(asked.beat, self.start is not None, asked.after)

    def _number(self, count: int) -> datetime | None:
        if isinstance(self.step, Dates) or self.start is None:
            return super()._number(count)
        try:
            return self.start.astimezone(UTC) + (count - 1) * self.step.interval
        except OverflowError:
            return None

    def _most_counted(self) -> int:
        if isinstance(self.step, Exact):
            return MOST_MULTIPLIED
        return MOST_WALKED if self.step.is_mixed() else super()._most_counted()

    def _said(self) -> str:
        words = f"every {self.step}"
        if isinstance(self.step, Dates):
            words += policies(self.step.clock.gap, self.step.clock.fold, USUAL)
        return words

    def _shortest(self) -> timedelta:
        return self.step.shortest()

    def _zone(self) -> tzinfo | None:
        return zone(self.step.clock.tz) if isinstance(self.step, Dates) else None

    def _floats(self) -> bool:
        return self.start is None and self.step.floats()


def policies(gap: Gap, fold: Fold, usual: tuple[Gap, Fold]) -> str:
    """Gap and fold as text, where they are not as usual."""
    words = f" gap {gap}" if gap != usual[0] else ""
    return words + (f" fold {fold}" if fold != usual[1] else "")


def _exact(interval: timedelta | None, *amounts: float) -> timedelta:
    if interval is not None and not isinstance(interval, timedelta):
        raise TaskTypeError(
            "every", interval, _("must be a timedelta, or hours=, minutes= and so on")
        )
    units = dict(zip(EXACT, amounts, strict=True))
    try:
        return timedelta(**units) + (interval or timedelta(0))
    except TypeError as error:
        raise TaskTypeError(
            "every", units, _("must be of numbers (%(error)s)", error=error)
        ) from None
    except (ValueError, OverflowError) as error:
        raise TaskValueError("every", units, _("is no duration (%(error)s)", error=error)) from None


def _day(months: int, days: int, day: int | None, shown: datetime | None) -> int:
    """The day of the month; 0 where there are days, which lead from any day to any other."""
    if not months and not days:
        raise TaskValueError("every", 0, _("must be longer than nothing"))
    if day is None:
        return 0 if days else shown.day if shown else 1
    if days:
        raise TaskValueError("day", day, _("is one of a month, and needs months or years alone"))
    return whole_number("day", day, 1, LONGEST_MONTH)


def _at(at: object, shown: datetime | None) -> time:
    if at is not None:
        return time_of_day(at)
    return shown.time() if shown else MIDNIGHT
