"""The five fields of crontab, or six with seconds first. The syntax is that of cronsim."""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from django_tasks.exceptions import TaskException, TaskTypeError, TaskValueError
from django_tasks.schedules.base import LONGEST, SOMEWHERE, Asked, Options, Schedule
from django_tasks.schedules.default_zone import zone_or_default
from django_tasks.schedules.every import policies
from django_tasks.schedules.wall_clock import Fold, Gap, WallClock, wall_clock

if TYPE_CHECKING:
    from typing import Unpack

    from cronsim import CronSim

# An hour field that starts with * means an interval, others a time of day.
INTERVALS: tuple[Gap, Fold] = ("skip", "both")
TIMES_OF_DAY: tuple[Gap, Fold] = ("next", "first")

# So many fires are looked at for the shortest interval: more than a year of two a day.
LOOKED_AT = 1000


@dataclass(frozen=True, repr=False, init=False)
class Cron(Schedule):
    """``Cron("*/5 9-18 * * 1-5", tz="Asia/Shanghai")``: times on the wall clock of a zone.

    Left out, ``tz`` is ``settings.TIME_ZONE``.

    Names, ``L`` and ``#`` are known; a sixth field is that of seconds and stands first. Needs the
    package cronsim: ``pip install 'django-delayed-tasks[cron]'``.

    ``gap`` and ``fold``: see ``WallClock``. Skip and both if the hour field starts with ``*``,
    else next and first.

    Raises TaskValueError or TaskTypeError for what makes no schedule, TaskException if cronsim is
    not installed.
    """

    expression: str
    tz: str
    gap: Gap
    fold: Fold

    def __init__(
        self,
        expression: str,
        tz: str | tzinfo | None = None,
        *,
        gap: Gap | None = None,
        fold: Fold | None = None,
        **options: "Unpack[Options]",
    ) -> None:
        expression = _checked(expression)
        clock = wall_clock(zone_or_default(tz), gap, fold, _usual(expression))
        self._become(options, expression=expression, tz=clock.tz, gap=clock.gap, fold=clock.fold)

    def _fire(self, asked: Asked) -> datetime | None:
        return WallClock(self.tz, self.gap, self.fold).first(self._wall, asked.after)

    def _wall(self, wall: datetime) -> datetime | None:
        try:
            return next(_cronsim(self.expression, wall), None)
        except (ValueError, OverflowError):  # behind the last year there is
            return None

    def _said(self) -> str:
        usual = _usual(self.expression)
        return f"cron {self.expression} {self.tz}" + policies(self.gap, self.fold, usual)

    def _shortest(self) -> timedelta | None:
        walls = islice(_cronsim(self.expression, SOMEWHERE.replace(tzinfo=None)), LOOKED_AT)
        return min((later - earlier for earlier, later in pairwise(walls)), default=None)


def _cronsim(expression: str, wall: datetime) -> "CronSim":
    """Wall times strictly later than a naive one, which know no daylight saving time."""
    try:
        from cronsim import CronSim
    except ImportError:
        raise TaskException(
            "a Cron schedule needs cronsim: pip install 'django-delayed-tasks[cron]'"
        ) from None
    return CronSim(expression, wall)


def _checked(expression: object) -> str:
    """An expression in its canonical spelling, of which there is a wall time."""
    if not isinstance(expression, str):
        raise TaskTypeError("cron", expression, "must be a text of five or six fields")
    if len(expression) > LONGEST:
        raise TaskValueError("cron", expression, f"is longer than {LONGEST:,} characters")
    canonical = " ".join(expression.upper().split())
    reason = _wrong_with(canonical)
    if reason is None:
        return canonical
    if _is_impossible_date(canonical):
        raise TaskValueError("cron", expression, f"is a schedule that never fires ({reason})")
    raise TaskValueError("cron", expression, f"is no cron expression ({reason})")


def _wrong_with(expression: str) -> str | None:
    """The library's reason why there is no time for an expression."""
    try:
        first = next(_cronsim(expression, SOMEWHERE.replace(tzinfo=None)), None)
    except TaskException:
        raise
    except Exception as error:  # noqa: BLE001 - CronSimError, which is there if cronsim is
        return str(error)
    return "no such date" if first is None else None


def _is_impossible_date(expression: str) -> bool:
    """Tell if there would be a time on other days, and in other months."""
    fields = expression.split()
    if len(fields) not in (5, 6):
        return False
    *clock, day, month, weekday = fields
    others = ((*clock, "*", month, weekday), (*clock, day, "*", weekday))
    return all(_wrong_with(" ".join(other)) is None for other in others)


def _usual(expression: str) -> tuple[Gap, Fold]:
    hour = expression.split()[-4]
    return INTERVALS if hour.startswith("*") else TIMES_OF_DAY
