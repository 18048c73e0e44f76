"""When a task with a schedule runs again, and for which time: its handler's policies applied."""

from datetime import datetime, timedelta
from functools import lru_cache
from random import uniform

from django_tasks.claimed import Claimed
from django_tasks.exceptions import TaskValueError
from django_tasks.handlers import TaskHandler
from django_tasks.outcomes import Reschedule
from django_tasks.schedules import Schedule, as_schedule, missed, parse

parsed = lru_cache(maxsize=1024)(parse)


def schedule_of(claimed: Claimed, handler: TaskHandler) -> Schedule:
    """The schedule of a task that has one.

    Raises TaskValueError if the row's text says nothing. A trigger that only the code knows stands
    in its handler.
    """
    if handler.schedule is not None and claimed.schedule == text_of(handler):
        return as_schedule(handler.schedule)
    return parsed(claimed.schedule or "")


def text_of(handler: TaskHandler) -> str | None:
    """What a handler's own schedule is in a row."""
    return None if handler.schedule is None else str(as_schedule(handler.schedule))


def first_time(schedule: Schedule, now: datetime) -> datetime:
    """When a new task first runs. Raises TaskValueError if that is never."""
    first = schedule.next_after(None, now)
    if first is None:
        raise TaskValueError("schedule", str(schedule), "never fires again")
    return first


def next_run(
    claimed: Claimed, schedule: Schedule, handler: TaskHandler, now: datetime
) -> Reschedule | None:
    """What follows a run that ends ``now``; None if it was the last.

    What was missed meanwhile is left out (``coalesce``), or run all the same, the last
    ``catch_up`` times of it.
    """
    intended = claimed.intended_time
    if handler.coalesce:
        following = schedule.next_after(intended, now)
    elif handler.catch_up is None:
        following = schedule.next_after(intended, intended)
    else:
        # The run that ends was one of them.
        left = missed(schedule, intended, now, handler.catch_up - 1)
        following = left[0] if left else schedule.next_after(intended, now)
    return None if following is None else _run_for(following, schedule)


def for_latest(
    claimed: Claimed, schedule: Schedule, handler: TaskHandler, now: datetime
) -> Claimed:
    """A claim as one for the last time that has passed, where missed ones count as one.

    A run that is tried again stays the run of its time.
    """
    is_first = claimed.attempts == claimed.rescues == 0
    if not (handler.coalesce and is_first):
        return claimed
    latest = missed(schedule, claimed.intended_time, now, 1)
    return claimed._replace(scheduled_time=latest[-1]) if latest else claimed


def _run_for(moment: datetime, schedule: Schedule) -> Reschedule:
    jitter = schedule.jitter.total_seconds() if schedule.jitter else 0.0
    if not jitter:
        return Reschedule(moment)
    return Reschedule(moment + timedelta(seconds=uniform(0, jitter)), scheduled_time=moment)
