"""Words for days: the ones that people use, and the fields they stand for."""

from collections.abc import Callable
from typing import Any

from django_tasks.schedules.base import Schedule
from django_tasks.schedules.cron import Cron
from django_tasks.schedules.every import Every
from django_tasks.schedules.every_steps import LONGEST_MONTH
from django_tasks.schedules.field_texts import ORDINALS, WEEKDAYS
from django_tasks.schedules.times_of_day import MIDNIGHT

_LONG = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_OTHERS = {"tues": "tue", "weds": "wed", "thur": "thu", "thurs": "thu"}
DAYS = {
    **dict(zip(WEEKDAYS, WEEKDAYS, strict=True)),
    **dict(zip(_LONG, WEEKDAYS, strict=True)),
    **_OTHERS,
    "weekday": "mon-fri",
}

_COUNTED = ("first", "second", "third", "fourth", "fifth")
PLACES = {
    **dict(zip(ORDINALS, ORDINALS, strict=True)),
    **dict(zip(_COUNTED, ORDINALS, strict=False)),
}


def day_in_month(place: str) -> int:
    """The number of a day that stands at a place, ``1st`` to ``last``, in each month."""
    return LONGEST_MONTH if place == "last" else ORDINALS.index(place) + 1


def _daily(**more: Any) -> Schedule:
    return Every(days=1, at=MIDNIGHT, **more)


def _monthly(**more: Any) -> Schedule:
    return Every(months=1, day=1, at=MIDNIGHT, **more)


def _hourly(**more: Any) -> Schedule:
    return Cron(minute=0, **more)


def _weekly(**more: Any) -> Schedule:
    return Cron(day_of_week="sun", **more)


def _yearly(**more: Any) -> Schedule:
    return Cron(month=1, **more)


# The names that crontab has, each with what makes it, given a zone and options.
NICKNAMES: dict[str, Callable[..., Schedule]] = {
    "@hourly": _hourly,
    "@daily": _daily,
    "@midnight": _daily,
    "@weekly": _weekly,
    "@monthly": _monthly,
    "@yearly": _yearly,
    "@annually": _yearly,
}
