"""The rows of handlers that have a schedule of their own: made, moved and removed at the start.

Races: workers start at once (the unique key lets one of them insert; a change is guarded by the
schedule that was read, so one of them makes it), with clients that pause or run the row meanwhile.
"""

from datetime import datetime

from django.db.models import Q

from django_tasks import logs
from django_tasks.exceptions import TaskValueError
from django_tasks.handlers import TaskHandler
from django_tasks.keys import SCHEDULE_NUM
from django_tasks.recurrence import first_time, text_of
from django_tasks.registry import get_task_handlers
from django_tasks.schedules import as_schedule
from django_tasks.store import search, steer
from django_tasks.store.upsert import NewTask, OnConflict, upsert_one


def keep(now: datetime, *, using: str) -> None:
    """Have the rows say what the code says; those of codes that nobody knows here stay."""
    handlers = get_task_handlers()
    rows = search.schedules(SCHEDULE_NUM, handlers, using=using)
    for code, handler in handlers.items():
        wanted, there = text_of(handler), rows.get(code)
        if wanted == there:
            continue
        logs.schedule_kept(code, wanted, using)
        if wanted is None:
            steer.cancel(_row(code, there), now, using=using)
        else:
            _plan(handler, code, wanted, there, now, using=using)


def _plan(
    handler: TaskHandler, code: str, wanted: str, there: str | None, now: datetime, *, using: str
) -> None:
    try:
        first = first_time(as_schedule(handler.schedule), now)
    except TaskValueError as error:
        logs.schedule_over(code, error)
        return
    if there is not None:
        steer.replan(_row(code, there), wanted, first, now, using=using)
        return
    own = NewTask(code, SCHEDULE_NUM, first, None, handler.queue, handler.priority, wanted)
    upsert_one(own, OnConflict.KEEP, now, using=using)


def _row(code: str, schedule: str | None) -> Q:
    return search.key(code, SCHEDULE_NUM) & Q(schedule=schedule)
