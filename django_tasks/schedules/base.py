"""The common part of all schedules: one question, and the options that narrow the answer."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypedDict

from django_tasks.exceptions import TaskValueError
from django_tasks.near_names import closest, did_you_mean
from django_tasks.schedules.arguments import TICK, UTC, moment, utc
from django_tasks.schedules.budget import apart, budget, is_limited, step, step_once
from django_tasks.schedules.durations import format_duration
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import LATEST, duration, whole_number

# A schedule is a short text in a row, and reading it takes a stack frame a level.
LONGEST = 1000
DEEPEST = 5

# Where to look for a first fire if nothing says where a schedule begins.
SOMEWHERE = datetime(2000, 1, 1, tzinfo=UTC)

NO_JITTER = timedelta(0)

# So many years are looked through for the shortest interval.
LOOKED_FOR = 50

# More than a budget has; rows from before there was one are counted once in a process.
MOST_COUNTED = 100_000


# Names of APScheduler and of calendars, and ours.
ELSEWHERE = {
    "start_date": "start",
    "end_date": "end",
    "timezone": "tz",
    "weekday": "day_of_week",
    "day_of_month": "day",
}


class PlanOptions(TypedDict, total=False):
    """Options of every schedule, besides its own arguments."""

    start: datetime | None
    end: datetime | None
    jitter: timedelta | float
    count: int | None


class Asked(NamedTuple):
    """A question for the first fire strictly later than ``after``; all aware UTC.

    ``beat`` is where what has no start of its own counts from.
    """

    previous: datetime | None
    beat: datetime
    after: datetime


@dataclass(frozen=True, repr=False, init=False)
class Schedule:
    """A value that says when a task runs again. ``str`` prints it, ``parse`` reads it back.

    ``start``, ``end``  no fire before or after; both moments belong to it; aware
    ``jitter``          how much later than its time a run may be put, to spread many tasks that
                        are due together; shorter than the shortest interval; drawn when the row is
                        written, not by ``next_after``
    ``count``           the number of fires, counted from ``start``

    All are None, or a ``jitter`` of zero, by default.
    """

    start: datetime | None
    end: datetime | None
    jitter: timedelta
    count: int | None

    def next_after(self, previous: datetime | None, now: datetime) -> datetime | None:
        """The first fire strictly later than ``now``, aware UTC; None: there is no more.

        ``previous``, the last intended time or None, is where an interval without a ``start``
        counts from. Raises TaskTypeError for what is no datetime, TaskValueError for a naive one.
        """
        now = utc("now", now)
        if previous is not None:
            previous = utc("previous", previous)
        return self._answer(Asked(previous, previous or now, now))

    def __str__(self) -> str:
        words = [self._said()]
        if self.start is not None:
            words.append(f"from {self.start.isoformat()}")
        if self.end is not None:
            words.append(f"until {self.end.isoformat()}")
        if self.jitter:
            words.append(f"jitter {format_duration(self.jitter)}")
        if self.count is not None:
            words.append(f"count {self.count}")
        return " ".join(words)

    def __repr__(self) -> str:
        return f"<schedule {self}>"

    # What each schedule says for itself

    def _fire(self, asked: Asked) -> datetime | None:
        """The first fire strictly later than ``asked.after``, whatever the options."""
        raise NotImplementedError

    def _said(self) -> str:
        raise NotImplementedError

    def _shortest(self) -> timedelta | None:
        raise NotImplementedError

    def _zone(self) -> tzinfo | None:
        return None

    def _floats(self) -> bool:
        """Tell if it counts from ``asked.beat``."""
        return False

    def _most_counted(self) -> int:
        return MOST_COUNTED

    def _depth(self) -> int:
        return 1

    def _opening(self) -> datetime:
        """No fire is earlier than this, or it does not matter which is the first."""
        return self.start or SOMEWHERE

    # The options

    def _answer(self, asked: Asked) -> datetime | None:
        if self.start is not None:
            after = max(asked.after, self.start.astimezone(UTC) - TICK)
            asked = asked._replace(beat=self.start.astimezone(UTC), after=after)
        try:
            fire = self._fire(asked)
        except OverflowError:  # later than the last datetime there is
            return None
        if fire is None or fire > self._last():
            return None
        return fire

    def _last(self) -> datetime:
        end = self.end or LATEST
        if self.count is None:
            return end
        last, steps = _counted(self)
        step_once(self, steps)
        return min(end, last or LATEST)

    def _number(self, count: int) -> datetime | None:
        for number, fire in enumerate(self._fires(), start=1):
            if number == count:
                return fire
        return None

    def _answers(self, beat: datetime) -> Iterator[datetime]:
        asked = Asked(None, beat, beat - TICK)
        while (fire := self._answer(asked)) is not None:
            yield fire
            asked = Asked(fire, beat, fire)

    def _fires(self) -> Iterator[datetime]:
        beat = self._opening()
        asked = Asked(None, beat, beat - TICK)
        while (fire := self._fire(asked)) is not None:
            yield fire
            asked = Asked(fire, beat, fire)

    def _become(self, options: PlanOptions, **own: object) -> None:
        """Take on all values, once; raise TaskValueError if they make no schedule."""
        for name, value in {**own, **window(options)}.items():
            object.__setattr__(self, name, value)
        self._check_length()
        with budget(self):
            self._check_count()
            self._check_that_it_fires()
            self._check_jitter()

    def _check_length(self) -> None:
        if len(text := str(self)) > LONGEST:
            raise TaskValueError(
                "schedule",
                text,
                _(
                    "is %(length)s characters, more than %(longest)s",
                    length=f"{len(text):,}",
                    longest=f"{LONGEST:,}",
                ),
            )

    def _check_count(self) -> None:
        if self.count is None:
            return
        if self.start is None:
            raise TaskValueError(
                "count", self.count, _("needs a start: fires are counted from there")
            )
        whole_number("count", self.count, 1, self._most_counted())
        if is_limited():
            self._last()

    def _check_that_it_fires(self) -> None:
        opening = self._opening()
        first = self._first(opening)
        if first is None:
            raise self._never()
        if self.start is not None and self.end is not None and first > self.end:
            raise TaskValueError(
                "end",
                self.end.isoformat(),
                _("is before the first fire at %(first)s", first=first.isoformat()),
            )
        if is_limited():  # the first may be easy to find, and no other
            with suppress(OverflowError):
                self._fire(Asked(first, opening, first))

    def _first(self, opening: datetime) -> datetime | None:
        return self._fire(Asked(None, opening, opening - TICK))

    def _never(self) -> TaskValueError:
        return TaskValueError("schedule", self._said(), _("is a schedule that never fires"))

    def _check_jitter(self) -> None:
        if not self.jitter:
            return
        shortest = self._shortest()
        if shortest is not None and self.jitter >= shortest:
            raise TaskValueError(
                "jitter",
                format_duration(self.jitter),
                _(
                    "must be shorter than the interval, %(interval)s",
                    interval=format_duration(shortest),
                ),
            )


def shortest_of(times: Iterator[datetime], most: int) -> timedelta | None:
    """The shortest time between two of the first ``most`` times, those of fifty years at most."""
    shortest, earlier, last = None, next(times, None), MAXYEAR
    if earlier is not None:
        last = earlier.year + LOOKED_FOR
    for later in islice(times, most - 1):
        step()
        if earlier is None or later.year > last:
            break
        shortest = min(later - earlier, shortest or later - earlier)
        earlier = later
    return shortest


@lru_cache(maxsize=1024)
def _counted(schedule: Schedule) -> tuple[datetime | None, int]:
    """The last fire of a schedule with a count, and the steps that it takes to count so far."""
    with apart() as steps:
        return schedule._number(schedule.count or 0), steps.taken


def check_options(options: PlanOptions, own: Collection[str] = ()) -> None:
    """Raise TypeError for an option that no schedule has. ``own`` are arguments of its class."""
    unknown = sorted(options.keys() - PlanOptions.__optional_keys__)
    if not unknown:
        return
    known = {*own, *PlanOptions.__optional_keys__}
    refusal = _("a schedule has no option %(names)s", names=", ".join(unknown))
    if (here := ELSEWHERE.get(unknown[0])) in known:
        raise TypeError(_("%(refusal)s; here it is called %(here)s", refusal=refusal, here=here))
    raise TypeError(did_you_mean(refusal, closest(unknown[0], known)))


def window(options: PlanOptions) -> PlanOptions:
    """The options of a schedule, checked, with those that were not given."""
    check_options(options)
    start, end, count = options.get("start"), options.get("end"), options.get("count")
    checked = PlanOptions(
        start=None if start is None else moment("start", start),
        end=None if end is None else moment("end", end),
        jitter=duration("jitter", options.get("jitter", NO_JITTER)),
        count=count,
    )
    if checked["start"] and checked["end"] and checked["end"] < checked["start"]:
        raise TaskValueError(
            "end",
            checked["end"].isoformat(),
            _("is before start, %(start)s", start=checked["start"].isoformat()),
        )
    return checked
