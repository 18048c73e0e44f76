"""The rows of handlers that have a schedule of their own: made, moved and removed at the start.

Races: workers start at once (the unique key lets one of them insert; a change is guarded by what
was read, so one of them makes it), with clients that pause or run the row meanwhile.
"""

from datetime import datetime

from django.db import DatabaseError, InterfaceError
from django.db.models import Q
from django.dispatch import Signal

from django_tasks import logs, signals
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.recurrence import first_time, text_of
from django_tasks.handlers.registry import get_task_handlers
from django_tasks.models import Task
from django_tasks.schedules import as_schedule
from django_tasks.store import control, search
from django_tasks.store.control import CancelResult
from django_tasks.store.search import Planned
from django_tasks.store.upsert import NewTask, OnConflict, upsert_one
from django_tasks.values.keys import SCHEDULE_NUM


def keep(now: datetime, *, using: str) -> None:
    """Have the rows say what the code says; those of codes that nobody knows here stay.

    Database errors pass. A trigger that raises harms its own handler's row only.
    """
    handlers = get_task_handlers()
    rows = search.planned(SCHEDULE_NUM, handlers, using=using)
    for code, handler in handlers.items():
        try:
            _keep(handler, code, rows.get(code), now, using=using)
        except (DatabaseError, InterfaceError):
            raise
        except Exception as error:  # noqa: BLE001 - a stranger's trigger may raise anything
            logs.schedule_over(code, error)


def _keep(
    handler: TaskHandler, code: str, there: Planned | None, now: datetime, *, using: str
) -> None:
    schedule = text_of(handler)
    if schedule is None:
        if there is not None:
            _remove(code, there, now, using=using)
        return
    wanted = Planned(schedule, handler.queue, handler.priority)
    if wanted == there:
        return
    first = first_time(as_schedule(handler.schedule), now)
    logs.schedule_kept(code, schedule, using)
    if there is None:
        _add(code, wanted, first, now, using=using)
    elif control.replan(_row(code, there), wanted, first, now, using=using):
        _tell(signals.task_changed, code, using, change="rescheduled")


def _add(code: str, wanted: Planned, first: datetime, now: datetime, *, using: str) -> None:
    schedule, queue, priority = wanted
    new = NewTask(code, SCHEDULE_NUM, first, None, queue, priority, schedule)
    task, is_new = upsert_one(new, OnConflict.KEEP, now, using=using)
    if is_new:
        signals.tell(signals.task_added, Task, task=task, using=using)


def _remove(code: str, there: Planned, now: datetime, *, using: str) -> None:
    logs.schedule_kept(code, None, using)
    done = control.cancel(_row(code, there), now, using=using)
    if done.gone or done.going:
        result = CancelResult.CANCELLED if done.gone else CancelResult.CANCELLING
        _tell(signals.task_cancelled, code, using, result=result)


def _tell(signal: Signal, code: str, using: str, **facts: object) -> None:
    signals.tell(signal, Task, biz_code=code, biz_num=SCHEDULE_NUM, using=using, **facts)


def _row(code: str, there: Planned) -> Q:
    return search.key(code, SCHEDULE_NUM) & Q(**there._asdict())
