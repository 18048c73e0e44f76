"""Triggers of APScheduler 3, as the schedules that they mean."""

from collections.abc import Callable
from datetime import datetime, time, tzinfo
from typing import Any

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules.arguments import zone, zone_or_default
from django_tasks.schedules.at import At
from django_tasks.schedules.base import Schedule
from django_tasks.schedules.combined import AllOf, AnyOf
from django_tasks.schedules.cron import Cron, class_of
from django_tasks.schedules.every import Every
from django_tasks.schedules.every_steps import SHORTEST_MONTH, YEAR
from django_tasks.sentences import sentence as _

Zone = str | tzinfo | None


def from_apscheduler(trigger: object, tz: str | tzinfo | None = None) -> Schedule:
    """The schedule that fires as a trigger of APScheduler 3, or a text for its ``from_crontab``.

    It can stand in a row, which a trigger cannot. ``tz`` is the zone of a text, by default
    ``settings.TIME_ZONE``, and goes before the zone of a trigger. See ``Cron.from_apscheduler`` for
    what is not the same; an interval or a date in an And or Or keeps its own beat, whatever the
    others do, and a jitter does not move it.

    Raises TaskTypeError for anything else, classes made of those too; TaskValueError for a text
    that cannot be read, a zone without a name, and a trigger that means no schedule here.
    """
    if isinstance(trigger, str):
        return Cron.from_apscheduler(trigger, tz)
    if (read := _READERS.get(class_of(trigger))) is None:
        raise TaskTypeError(
            "trigger", trigger, _("must be one of APScheduler's own, or five fields")
        )
    return read(trigger, tz)


def _interval(trigger: Any, tz: Zone) -> Schedule:
    return Every(
        trigger.interval,
        start=trigger.start_date,
        end=trigger.end_date,
        jitter=trigger.jitter or 0,
    )


def _date(trigger: Any, tz: Zone) -> Schedule:
    return At(trigger.run_date)


def _all(trigger: Any, tz: Zone) -> Schedule:
    return AllOf(*_parts(trigger, tz), jitter=trigger.jitter or 0)


def _any(trigger: Any, tz: Zone) -> Schedule:
    return AnyOf(*_parts(trigger, tz), jitter=trigger.jitter or 0)


def _parts(trigger: Any, tz: Zone) -> list[Schedule]:
    return [from_apscheduler(each, tz) for each in trigger.triggers]


def _calendar(trigger: Any, tz: Zone) -> Schedule:
    """Dates, of which those in a gap are left out, as there."""
    state = trigger.__getstate__()
    years, months, weeks, days = state["interval"]
    months, days = years * YEAR + months, weeks * 7 + days
    named = zone_or_default(trigger.timezone if tz is None else tz)
    first, last = trigger.start_date, trigger.end_date
    common: dict[str, Any] = {
        "tz": named,
        "gap": "skip",
        "fold": "first",
        "start": datetime.combine(first, time.min, zone(named)),
        "end": last and datetime.combine(last, time.max, zone(named)),
        "jitter": trigger.jitter or 0,
    }
    at = time(*state["time"])
    if days or first.day <= SHORTEST_MONTH.days:
        day = None if days else first.day
        return Every(months=months, days=days, day=day, at=at, **common)
    fields = {**_months(first, months), "day": first.day}
    return Cron(hour=at.hour, minute=at.minute, second=at.second, **fields, **common)


def _months(first: Any, months: int) -> dict[str, Any]:
    """The fields for a day that not every month has: those months are left out there."""
    if months % YEAR == 0:
        return {"year": f"{first.year}/{months // YEAR}", "month": first.month}
    if YEAR % months:
        raise TaskValueError(
            "trigger",
            str(first),
            _("goes by %(months)s months from a day that not all of them have", months=months),
        )
    numbers = sorted((first.month - 1 + later) % YEAR + 1 for later in range(0, YEAR, months))
    return {"month": ",".join(map(str, numbers))}


_PLACE = "apscheduler.triggers."
_READERS: dict[str, Callable[[Any, Zone], Schedule]] = {
    f"{_PLACE}calendarinterval.CalendarIntervalTrigger": _calendar,
    f"{_PLACE}combining.AndTrigger": _all,
    f"{_PLACE}combining.OrTrigger": _any,
    f"{_PLACE}cron.CronTrigger": Cron.from_apscheduler,
    f"{_PLACE}date.DateTrigger": _date,
    f"{_PLACE}interval.IntervalTrigger": _interval,
}
