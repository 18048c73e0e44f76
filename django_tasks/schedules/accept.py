"""Values that are accepted as a schedule."""

from datetime import timedelta

from django_tasks.exceptions import TaskTypeError
from django_tasks.schedules.base import Schedule
from django_tasks.schedules.budget import unlimited
from django_tasks.schedules.every import Every
from django_tasks.schedules.foreign import Foreign
from django_tasks.schedules.text import parse
from django_tasks.sentences import sentence as _


def as_schedule(value: object) -> Schedule:
    """A schedule as it is, a text parsed, a timedelta as ``Every``, a trigger as ``Foreign``.

    A trigger is an object with APScheduler's ``get_next_fire_time(previous_fire_time, now)``.
    Raises TaskTypeError for anything else, TaskValueError for a text or timedelta that makes none.
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, timedelta):
        return Every(value)
    if callable(getattr(value, "get_next_fire_time", None)) and not isinstance(value, type):
        return Foreign(value)
    raise TaskTypeError(
        "schedule",
        value,
        _("must be a schedule, a text like 'every 30m', a timedelta or a trigger"),
    )


def stored(text: str) -> Schedule:
    """The schedule of a row that is there, however many steps it takes: it was allowed once."""
    with unlimited():
        return parse(text)
