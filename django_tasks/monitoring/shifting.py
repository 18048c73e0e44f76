"""All tasks that match a filter, each moved by the same length of time."""

from collections import defaultdict
from collections.abc import Generator
from datetime import datetime, timedelta

from django.db.models import Q

from django_tasks import signals
from django_tasks.client.adding import DEFAULT_BATCH, MOST_IN_BATCH
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.models import Task
from django_tasks.monitoring.filters import TaskFilter
from django_tasks.monitoring.many import Batch
from django_tasks.sentences import sentence as _
from django_tasks.store import clock, control
from django_tasks.store.aliases import write_alias
from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.timezones import aware
from django_tasks.values.amounts import whole_number
from django_tasks.wakeup.wake import LONG_AGO, wake_workers


def shift(
    tasks: TaskFilter,
    by: timedelta,
    *,
    using: str | None = None,
    batch_size: int = DEFAULT_BATCH,
) -> Generator[Batch, None, None]:
    """Move all tasks that match by ``by``, which may be negative, from the time that each has.

    As ``monitoring.many.steps`` in all else. Each is moved once: in the order of ids, of those that
    match when their batch begins.
    """
    using = write_alias(using)
    size = whole_number("batch_size", batch_size, 1, MOST_IN_BATCH)
    if not isinstance(by, timedelta):
        raise TaskTypeError("by", by, _("must be a timedelta"))
    if not tasks:
        raise TaskValueError("tasks", tasks.words(), _("must say which tasks are meant"))
    return _batches(tasks.settled(using), by, using, size)


def _batches(
    tasks: TaskFilter, by: timedelta, using: str, size: int
) -> Generator[Batch, None, None]:
    count = last = 0
    try:
        while batch := _shift_next(tasks, by, last, size, using=using):
            last, count = batch.last_id, count + batch.changed
            if batch.changed:
                wake_workers(LONG_AGO, using, batch.changed)
            yield batch
    finally:
        if count:
            signals.tasks_changed.send_robust(
                Task, change="rescheduled", which=tasks.params(), count=count, using=using
            )


@retried
def _shift_next(
    tasks: TaskFilter, by: timedelta, after: int, size: int, *, using: str
) -> Batch | None:
    """Move the next batch; None if there is none.

    Race: somebody moves one of them meanwhile. The rows are locked when their times are read, and
    nobody changes them until our commit. They are found first and locked by their ids: a search
    that locks would lock what it walks over.
    """
    now = clock.now(using)
    with write_transaction(using), dialect_of(using).bounded():
        found = tasks.rows(using=using, now=now)
        ids = list(found.filter(id__gt=after).order_by("id").values_list("id", flat=True)[:size])
        if not ids:
            return None
        locked = found.filter(id__in=ids).order_by("id").select_for_update()
        by_time = defaultdict(list)
        for task_id, when in locked.values_list("id", "when"):
            by_time[when].append(task_id)
        changed = 0
        for when, some in sorted(by_time.items()):
            moment = _moved(aware("when", when), by)
            changed += control.reschedule(Q(id__in=some), moment, now, using=using)
        return Batch(ids[-1], len(ids), changed, len(ids) - changed)


def _moved(when: datetime, by: timedelta) -> datetime:
    try:
        return aware("by", when + by)
    except OverflowError:
        raise TaskValueError(
            "by", by, _("is too long for a task that is due at %(when)s", when=when)
        ) from None
