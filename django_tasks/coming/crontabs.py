"""Cron fields of others in the words of crontab."""

import re
from collections.abc import Iterable
from typing import Any

from django_tasks.schedules import AllOf, Cron, Schedule

# Written alike everywhere, with one meaning.
_PLAIN = re.compile(r"\*(/\d+)?|\d+(,\d+)*")


def written(text: str, values: Iterable[int]) -> str:
    """A field: its own text if that is plain, else the list of the numbers that it means."""
    return text if _PLAIN.fullmatch(text) else ",".join(map(str, sorted(values)))


def crontab(clock: str, day: str, month: str, weekday: str, tz: str, **options: Any) -> Schedule:
    """A schedule whose days must match both the day of the month and the day of the week.

    In a crontab they must only if one of them begins with ``*``. ``clock`` is the fields before.
    """
    if day.startswith("*") or weekday.startswith("*"):
        return Cron(f"{clock} {day} {month} {weekday}", tz, **options)
    dates = Cron(f"{clock} {day} {month} *", tz)
    return AllOf(dates, Cron(f"{clock} * {month} {weekday}", tz), **options)
