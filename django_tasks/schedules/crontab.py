"""The five fields of crontab, or six with seconds first. The syntax is that of cronsim."""

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from django_tasks.exceptions import NotHere, TaskException, TaskValueError
from django_tasks.schedules.base import LONGEST, SOMEWHERE
from django_tasks.schedules.budget import step
from django_tasks.schedules.field_texts import MONTHS, WEEKDAYS
from django_tasks.sentences import sentence as _

if TYPE_CHECKING:
    from cronsim import CronSim

SUNDAY_FIRST = (WEEKDAYS[-1], *WEEKDAYS[:-1])
_VALUE = rf"(?:[0-9]+|{'|'.join((*MONTHS, *WEEKDAYS)).upper()})"
_ONE_VALUE = re.compile(rf"(?<![^ ,])({_VALUE})-\1/0*[1-9][0-9]*(?![^ ,])")
_RANGE = re.compile(rf"(?<![^ ,])({_VALUE})-({_VALUE})(?![^ ,/])")

# The library looks for a time day by day: so many of them take as long as a step.
DAYS = 10
GIVEN_UP = 50 * 366 // DAYS


@dataclass(frozen=True)
class Crontab:
    """An expression of crontab in its canonical spelling, of which there is a wall time."""

    expression: str

    opening: ClassVar[datetime] = SOMEWHERE

    @property
    def hours(self) -> str:
        return self.expression.split()[-4]

    def walls(self, after: datetime) -> Iterator[datetime]:
        """The wall times strictly later than ``after``; they know no daylight saving time."""
        try:
            for wall in _cronsim(self.expression, after):
                step((wall - after).days // DAYS)
                yield wall
                after = wall
            step(GIVEN_UP)
        except (ValueError, OverflowError):  # behind the last year there is
            return

    def __str__(self) -> str:
        return self.expression


def read_crontab(text: str) -> Crontab:
    """The expression that ``text`` is, whatever its case and blanks.

    Raises TaskValueError for one that is too long, cannot be read or never fires, TaskException if
    cronsim is not installed.
    """
    if len(text) > LONGEST:
        raise TaskValueError(
            "cron", text, _("is longer than %(longest)s characters", longest=f"{LONGEST:,}")
        )
    # A step through a range of one value leaves that value; the library would go on behind it.
    canonical = _ONE_VALUE.sub(r"\1", " ".join(text.upper().split()))
    reason = _wrong_with(canonical)
    if reason is None:
        return Crontab(canonical)
    if _is_impossible_date(canonical):
        raise TaskValueError(
            "cron", text, _("is a schedule that never fires (%(reason)s)", reason=reason)
        )
    raise TaskValueError("cron", text, _("is no cron expression (%(reason)s)", reason=reason))


def _cronsim(expression: str, wall: datetime) -> "CronSim":
    """The times of an expression after one. Reading it takes longer than to find the next."""
    times = copy(_read(expression))
    times.dt = wall.replace(microsecond=0)
    return times


@lru_cache(maxsize=1024)
def _read(expression: str) -> "CronSim":
    try:
        from cronsim import CronSim
    except ImportError:
        raise NotHere(
            _("a Cron of crontab's fields needs cronsim: pip install 'django-delayed-tasks[cron]'")
        ) from None
    return CronSim(expression, SOMEWHERE.replace(tzinfo=None))


def _wrong_with(expression: str) -> str | None:
    step(len(expression) // 10)
    try:
        first = next(_cronsim(expression, SOMEWHERE.replace(tzinfo=None)), None)
    except TaskException:
        raise
    except Exception as error:  # noqa: BLE001 - CronSimError, which is there if cronsim is
        for low, high in _RANGE.findall(expression):
            if _number(high) < _number(low):
                item = f"{low}-{high}"
                return _("has %(item)r, which ends before it begins", item=item)
        return str(error)
    return _("no such date") if first is None else None


def _number(value: str) -> int:
    name = value.lower()
    for names, first in ((MONTHS, 1), (SUNDAY_FIRST, 0)):
        if name in names:
            return first + names.index(name)
    return int(value)


def _is_impossible_date(expression: str) -> bool:
    fields = expression.split()
    if len(fields) not in (5, 6):
        return False
    *clock, day, month, weekday = fields
    others = ((*clock, "*", month, weekday), (*clock, day, "*", weekday))
    return all(_wrong_with(" ".join(other)) is None for other in others)
