"""Schedules made of schedules."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules.arguments import TICK
from django_tasks.schedules.base import DEEPEST, Asked, PlanOptions, Schedule, shortest_of
from django_tasks.schedules.budget import TooManySteps
from django_tasks.schedules.wall_clock import GIVE_UP
from django_tasks.sentences import sentence as _

if TYPE_CHECKING:
    from typing import Unpack

# How often AllOf asks all of its schedules before it says that they never agree.
ROUNDS = 10_000

LOOKED_AT = 250


@dataclass(frozen=True, repr=False, init=False)
class Several(Schedule):
    """The common part of AnyOf and AllOf."""

    schedules: tuple[Schedule, ...]

    NAME: ClassVar[str]

    def __init__(self, *schedules: Schedule, **options: "Unpack[PlanOptions]") -> None:
        for each in schedules:
            self._check_part(each)
        if not schedules:
            raise TaskValueError(self.NAME, schedules, _("needs at least one schedule"))
        object.__setattr__(self, "schedules", schedules)
        if self._depth() > DEEPEST:
            raise TaskValueError(
                self.NAME,
                schedules,
                _("is nested more than %(deepest)s levels deep", deepest=DEEPEST),
            )
        self._become(options)

    def _check_part(self, part: object) -> None:
        if not isinstance(part, Schedule):
            raise TaskTypeError(self.NAME, part, _("must be made of schedules"))
        if part.jitter:
            raise TaskValueError(
                "jitter",
                str(part),
                _("stands outside of the parentheses of %(name)s", name=self.NAME),
            )

    def _depth(self) -> int:
        return 1 + max(each._depth() for each in self.schedules)

    def _zone(self) -> tzinfo | None:
        zones = (each._zone() for each in self.schedules)
        return next((each for each in zones if each is not None), None)

    def _floats(self) -> bool:
        return self.start is None and any(each._floats() for each in self.schedules)

    def _said(self) -> str:
        return f"{self.NAME} ({'; '.join(map(str, self.schedules))})"


@dataclass(frozen=True, repr=False, init=False)
class AnyOf(Several):
    """``AnyOf(a, b, ...)``: whenever one of them fires; together, they fire once."""

    NAME = "any of"

    def _fire(self, asked: Asked) -> datetime | None:
        fires = (each._answer(asked) for each in self.schedules)
        return min((fire for fire in fires if fire is not None), default=None)

    def _opening(self) -> datetime:
        return self.start or min(each._opening() for each in self.schedules)

    def _shortest(self) -> timedelta | None:
        return shortest_of(self._fires(), LOOKED_AT)

    def _fires(self) -> Iterator[datetime]:
        """All fires, each part being asked for its own alone: all for each would multiply."""
        opening = self._opening()
        merged = merge(*(each._answers(opening) for each in self.schedules))
        return (fire for fire, _same in groupby(merged))


@dataclass(frozen=True, repr=False, init=False)
class AllOf(Several):
    """``AllOf(a, b, ...)``: whenever all of them fire at the same time.

    The search ends, with None, 50 years ahead or after 10,000 rounds of asking each; an ``AllOf``
    inside another would multiply the rounds and is refused. So are intervals without a start: they
    would agree with others by chance only.
    """

    NAME = "all of"

    def _fire(self, asked: Asked) -> datetime | None:
        horizon = asked.after + GIVE_UP
        for _round in range(ROUNDS):
            fires = [each._answer(asked) for each in self.schedules]
            latest = max((fire for fire in fires if fire is not None), default=horizon)
            if None in fires or latest > horizon:
                return None
            if all(fire == latest for fire in fires):
                return latest
            asked = asked._replace(after=latest - TICK)
        return None

    def _check_part(self, part: object) -> None:
        super()._check_part(part)
        if isinstance(part, Schedule) and _has_all_of(part):
            raise TaskValueError(
                self.NAME, str(part), _("must not stand inside of all of: write one")
            )

    def _check_that_it_fires(self) -> None:
        for each in self.schedules:
            if self.start is None and each._floats():
                raise TaskValueError(
                    self.NAME,
                    str(each),
                    _("needs to know from when its interval counts: add a start"),
                )
        super()._check_that_it_fires()

    def _first(self, opening: datetime) -> datetime | None:
        try:
            return super()._first(opening)
        except TooManySteps:  # one round too many, as ROUNDS are
            return None

    def _never(self) -> TaskValueError:
        return TaskValueError(self.NAME, self._said(), _("never fires: its schedules never agree"))

    def _opening(self) -> datetime:
        return self.start or max(each._opening() for each in self.schedules)

    def _shortest(self) -> timedelta | None:
        known = (each._shortest() for each in self.schedules)
        return max((each for each in known if each is not None), default=None)


def _has_all_of(schedule: Schedule) -> bool:
    if isinstance(schedule, AllOf):
        return True
    return isinstance(schedule, Several) and any(map(_has_all_of, schedule.schedules))
