"""The rows of handlers that have a schedule of their own: made, moved and removed at the start.

One for each handler; of a handler that runs on each host, one for each host, which the workers
there keep.

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
from django_tasks.values.hosts import number_of, queue_of
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.worker.config import WorkerConfig

# Code and number.
Key = tuple[str, str]


def keep(now: datetime, config: WorkerConfig) -> None:
    """Have the rows say what the code says; those of codes that nobody knows here stay.

    So do those of this host if this worker would not run them: another one here may. Database
    errors pass. A trigger that raises harms its own handler's row only.
    """
    handlers, here, using = get_task_handlers(), number_of(config.host), config.using
    there = search.planned((SCHEDULE_NUM, here), handlers, using=using)
    for code, handler in handlers.items():
        if handler.each_host and not config.serves(handler.queue, code):
            continue
        queue = queue_of(config.host) if handler.each_host else handler.queue
        own, other = (here, SCHEDULE_NUM) if handler.each_host else (SCHEDULE_NUM, here)
        try:
            _keep(handler, (code, own), queue, there.get((code, own)), now, using=using)
            if unwanted := there.get((code, other)):
                _remove((code, other), unwanted, now, using=using)
        except (DatabaseError, InterfaceError):
            raise
        except Exception as error:  # noqa: BLE001 - a stranger's trigger may raise anything
            logs.schedule_over(code, error, using)


def _keep(
    handler: TaskHandler, key: Key, queue: str, there: Planned | None, now: datetime, *, using: str
) -> None:
    schedule = text_of(handler)
    if schedule is None:
        if there is not None:
            _remove(key, there, now, using=using)
        return
    wanted = Planned(schedule, queue, handler.priority)
    if wanted == there:
        if not handler.each_host or control.alter(_row(key, there), {}, now, using=using):
            return
        there = None  # removed just now, as one of a host that has gone
    first = first_time(as_schedule(handler.schedule), now)
    logs.schedule_kept(key[0], schedule, using)
    if there is None:
        _add(key, wanted, first, now, using=using)
    elif control.replan(_row(key, there), wanted, first, now, using=using):
        _tell(signals.task_changed, key, using, change="rescheduled")


def _add(key: Key, wanted: Planned, first: datetime, now: datetime, *, using: str) -> None:
    schedule, queue, priority = wanted
    new = NewTask(*key, first, None, queue, priority, schedule)
    task, is_new = upsert_one(new, OnConflict.KEEP, now, using=using)
    if is_new:
        signals.tell(signals.task_added, Task, task=task, using=using)


def _remove(key: Key, there: Planned, now: datetime, *, using: str) -> None:
    logs.schedule_kept(key[0], None, using)
    done = control.cancel(_row(key, there), now, using=using)
    if done.gone or done.going:
        result = CancelResult.CANCELLED if done.gone else CancelResult.CANCELLING
        _tell(signals.task_cancelled, key, using, result=result)


def _tell(signal: Signal, key: Key, using: str, **facts: object) -> None:
    biz_code, biz_num = key
    signals.tell(signal, Task, biz_code=biz_code, biz_num=biz_num, using=using, **facts)


def _row(key: Key, there: Planned) -> Q:
    """The row as long as it says what was read."""
    return search.key(*key) & Q(**there._asdict())
