"""Triggers of APScheduler 3 as schedules. Nothing of APScheduler is imported here."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django_tasks.coming.crontabs import crontab, written
from django_tasks.coming.found import CannotCome
from django_tasks.exceptions import TaskException
from django_tasks.schedules import At, Every, Schedule

# The least and the most that a field can say.
_RANGES = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "month": (1, 12),
    "day_of_week": (0, 6),
    "day": (1, 31),
}
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_NUMBERS = {name: (place + 1) % 7 for place, name in enumerate(_WEEKDAYS)}
_POSITION = re.compile(r"(\d|last)\w* (\w{3})")


def schedule_of(trigger: Any) -> Schedule:
    """The schedule that fires as ``trigger`` does; CannotCome if there is none."""
    kind = f"{type(trigger).__module__}.{type(trigger).__qualname__}"
    if kind not in _KINDS:
        raise CannotCome(f"its trigger is a {type(trigger).__qualname__}")
    try:
        return _KINDS[kind](trigger)
    except TaskException as error:
        raise CannotCome(f"its trigger {trigger}: {error}") from None


def _date(trigger: Any) -> Schedule:
    return At(trigger.run_date)


def _interval(trigger: Any) -> Schedule:
    return Every(trigger.interval, **_options(trigger))


def _cron(trigger: Any) -> Schedule:
    fields = {field.name: field for field in trigger.fields}
    for name in ("year", "week"):
        if str(fields[name]) != "*":
            raise CannotCome(f"its trigger {trigger} names a {name}")
    clock = " ".join(_field(fields[name]) for name in ("second", "minute", "hour"))
    day, weekday = _days(fields["day"], _weekdays(fields["day_of_week"]))
    zone = str(trigger.timezone)
    return crontab(
        clock.removeprefix("0 "), day, _field(fields["month"]), weekday, zone, **_options(trigger)
    )


_KINDS = {
    "apscheduler.triggers.date.DateTrigger": _date,
    "apscheduler.triggers.interval.IntervalTrigger": _interval,
    "apscheduler.triggers.cron.CronTrigger": _cron,
}


def _options(trigger: Any) -> dict[str, Any]:
    jitter = timedelta(seconds=trigger.jitter or 0)
    return {"start": trigger.start_date, "end": trigger.end_date, "jitter": jitter}


def _field(field: Any) -> str:
    return written(str(field), _values(field))


def _weekdays(field: Any) -> str:
    """By name: APScheduler's Monday is 0, crontab's is 1."""
    if str(field) == "*":
        return "*"
    return ",".join(_WEEKDAYS[number] for number in sorted(set(_values(field))))


def _values(field: Any) -> Iterator[int]:
    least, most = _RANGES[field.name]
    for expression in field.expressions:
        first = getattr(expression, "first", None)
        last = getattr(expression, "last", None)
        start, end = (least if first is None else first), (most if last is None else last)
        yield from range(start, end + 1, expression.step or 1)


def _days(field: Any, weekday: str) -> tuple[str, str]:
    """The fields of days: "last" and "2nd fri" stand in another place, or in another way."""
    texts = [str(expression) for expression in field.expressions]
    positions = [_POSITION.fullmatch(text) for text in texts]
    if not any(positions):
        return ("L", weekday) if texts == ["last"] else (_numbers_of_days(field, texts), weekday)
    if weekday != "*" or not all(positions):
        raise CannotCome(f"its days {','.join(texts)!r} cannot be said beside others")
    return "*", ",".join(_position(match[1], match[2]) for match in positions if match)


def _numbers_of_days(field: Any, texts: list[str]) -> str:
    if "last" in texts:
        raise CannotCome(f"its days {','.join(texts)!r} cannot be said together")
    return _field(field)


def _position(place: str, name: str) -> str:
    weekday = name.upper()
    return f"{_NUMBERS[weekday]}L" if place == "last" else f"{weekday}#{place}"
