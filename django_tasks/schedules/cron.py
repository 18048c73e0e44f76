"""Times on a wall clock by their fields: crontab's expressions, or APScheduler's fields by name."""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules.arguments import zone, zone_or_default
from django_tasks.schedules.base import Asked, PlanOptions, Schedule, check_options, shortest_of
from django_tasks.schedules.budget import step
from django_tasks.schedules.cron_fields import Fields, fields_of, read_fields
from django_tasks.schedules.crontab import Crontab, read_crontab
from django_tasks.schedules.every import policies
from django_tasks.schedules.field_texts import NAMES
from django_tasks.schedules.wall_clock import Fold, Gap, WallClock, wall_clock
from django_tasks.sentences import sentence as _

if TYPE_CHECKING:
    from typing import Unpack

# An hour field that starts with * means an interval, others a time of day.
INTERVALS: tuple[Gap, Fold] = ("skip", "both")
TIMES_OF_DAY: tuple[Gap, Fold] = ("next", "first")

# So many fires are looked at for the shortest interval: more than a year of two a day.
LOOKED_AT = 1000

TRIGGER = "apscheduler.triggers.cron.CronTrigger"
# The names of its own arguments.
OWN = (*NAMES, "tz", "gap", "fold")
CRONTAB = ("minute", "hour", "day", "month", "day_of_week")


@dataclass(frozen=True, repr=False, init=False)
class Cron(Schedule):
    """Times on the wall clock of a zone, ``settings.TIME_ZONE`` if ``tz`` is left out.

    ``Cron("*/5 9-18 * * 1-5", tz="Asia/Shanghai")``: crontab's five fields; a sixth is that of
    seconds and stands first. Names, ``L`` and ``#`` are known; 0 and 7 are Sunday. Needs the
    package cronsim: ``pip install 'django-delayed-tasks[cron]'``.

    ``Cron(day="last fri", hour=9, minute="*/5", year="2027-2029")``: APScheduler's fields, ints or
    texts, by name. All must match, 0 is Monday, and a field left out is ``*``, or its first value
    behind the least significant one that is given. Needs no package.

    ``gap`` and ``fold``: see ``WallClock``. Skip and both if the hour field starts with ``*``,
    else next and first.

    Raises TaskValueError or TaskTypeError for what makes no schedule, TaskException if cronsim is
    needed and not installed.
    """

    expression: str
    tz: str
    gap: Gap
    fold: Fold

    def __init__(
        self,
        expression: str | None = None,
        tz: str | tzinfo | None = None,
        *,
        year: int | str | None = None,
        month: int | str | None = None,
        day: int | str | None = None,
        week: int | str | None = None,
        day_of_week: int | str | None = None,
        hour: int | str | None = None,
        minute: int | str | None = None,
        second: int | str | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
        **options: "Unpack[PlanOptions]",
    ) -> None:
        check_options(options, OWN)
        values = (year, month, day, week, day_of_week, hour, minute, second)
        given = {
            name: value for name, value in zip(NAMES, values, strict=True) if value is not None
        }
        times = _one_of(expression, given)
        clock = wall_clock(zone_or_default(tz), gap, fold, _usual(times))
        self._become(options, expression=str(times), tz=clock.tz, gap=clock.gap, fold=clock.fold)

    @classmethod
    def from_apscheduler(cls, trigger: object, tz: str | tzinfo | None = None) -> "Cron":
        """The schedule that a CronTrigger of APScheduler 3, or a text for its from_crontab, means.

        A trigger brings its fields, start, end and jitter along, and its zone unless ``tz`` says
        another; a text is in ``tz``, by default ``settings.TIME_ZONE``. In a text, too, 0 is
        Monday, and both fields of days must match.

        Fires are the same but for two things: where clocks are changed, ``gap`` and ``fold`` hold;
        and the jitter must be shorter than the shortest interval.

        Raises TaskTypeError for anything else, TaskValueError for a text that cannot be read, and
        for a zone without a name if ``tz`` gives none.
        """
        if isinstance(trigger, str):
            if len(values := trigger.split()) != len(CRONTAB):
                raise TaskValueError(
                    "cron", trigger, _("must have %(length)s fields", length=len(CRONTAB))
                )
            given: dict[str, Any] = dict(zip(CRONTAB, values, strict=True))
            return cls(tz=tz, **given)
        if class_of(trigger) != TRIGGER:
            raise TaskTypeError(
                "cron", trigger, _("must be a CronTrigger, or a text of five fields")
            )
        return _of_trigger(trigger, tz)

    def _fire(self, asked: Asked) -> datetime | None:
        return WallClock(self.tz, self.gap, self.fold).first(self._wall, asked.after)

    def _zone(self) -> tzinfo:
        return zone(self.tz)

    def _wall(self, wall: datetime) -> datetime | None:
        times = _times(self.expression)
        step(8 if isinstance(times, Crontab) else 5)
        return next(times.walls(wall), None)

    def _said(self) -> str:
        usual = _usual(_times(self.expression))
        return f"cron {self.expression} {self.tz}" + policies(self.gap, self.fold, usual)

    def _opening(self) -> datetime:
        return self.start or _times(self.expression).opening

    def _shortest(self) -> timedelta | None:
        times = _times(self.expression)
        return shortest_of(times.walls(times.opening.replace(tzinfo=None)), LOOKED_AT)


def _one_of(expression: object, given: dict[str, Any]) -> Crontab | Fields:
    if expression is None and given:
        return fields_of(given)
    if not isinstance(expression, str):
        raise TaskTypeError(
            "cron", expression, _("must be a text of five or six fields, unless fields are named")
        )
    if given:
        raise TaskTypeError(
            "cron", expression, _("stands beside %(given)s: give one", given=", ".join(given))
        )
    return _times(expression)


@lru_cache(maxsize=1024)  # rows have the same expressions again and again
def _times(expression: str) -> Crontab | Fields:
    return read_fields(expression) if "=" in expression else read_crontab(expression)


def _usual(times: Crontab | Fields) -> tuple[Gap, Fold]:
    return INTERVALS if times.hours.startswith("*") else TIMES_OF_DAY


# What others have made


def class_of(value: object) -> str:
    """The full name of a value's class: a library need not be there to know its objects."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _of_trigger(trigger: Any, tz: str | tzinfo | None) -> Cron:
    given: dict[str, Any] = {
        field.name: ",".join(map(_item, field.expressions)) for field in trigger.fields
    }
    return Cron(
        tz=trigger.timezone if tz is None else tz,
        start=trigger.start_date,
        end=trigger.end_date,
        jitter=trigger.jitter or 0,
        **given,
    )


def _item(expression: Any) -> str:
    """The text of a part of a trigger's field; of a single value, without a step that does nothing.

    The library's own text of ``0-0/5`` is ``0/5``, which means others too.
    """
    first = getattr(expression, "first", None)
    return str(expression if first is None or first != expression.last else first)
