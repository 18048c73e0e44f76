"""One step for all tasks that match a filter, without a limit, in bounded batches.

Or each is moved by the same length of time.
"""

from collections import defaultdict
from collections.abc import Generator
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from django_tasks.client.adding import DEFAULT_BATCH, MOST_IN_BATCH
from django_tasks.client.arguments import When, checked_moment
from django_tasks.client.changes import VERBS, Meant, Piece, Step, change_all, told, touched_by
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.models import Task
from django_tasks.reads.filters import TaskFilter
from django_tasks.sentences import sentence as _
from django_tasks.store import clock, control
from django_tasks.store.aliases import write_alias
from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.timezones import aware
from django_tasks.values.amounts import whole_number
from django_tasks.values.status import Status
from django_tasks.wakeup.wake import LONG_AGO


def meant(tasks: TaskFilter, step: Step, *, using: str, now: datetime) -> QuerySet[Task]:
    """The rows of the filter that the step changes, in no order: only what FAILED is requeued."""
    if step is Step.REQUEUE and tasks.status is None:
        tasks = replace(tasks, status=Status.FAILED)
    return touched_by(step, tasks.rows(using=using, now=now))


def steps(
    tasks: TaskFilter,
    step: Step,
    *,
    to: When | None = None,
    using: str | None = None,
    batch_size: int = DEFAULT_BATCH,
    after: int = 0,
) -> Generator[Piece, None, None]:
    """Take a step with all tasks that match, a batch at a time, in the order of their ids.

    ``batch_size`` of them, 1 to 1,000, go in one transaction, which changes those alone that still
    match by then. If a later batch fails, or nobody asks for it, the earlier ones stand. ``after``
    is the ``last_id`` from which to go on. ``to`` is the time that MOVE moves them to. The filter
    must say something, unless FAILED tasks are requeued; what its search means is settled here,
    unless the caller has done so. One signal is sent at the end,
    ``tasks_changed``. Raises TaskValueError or TaskTypeError before anything is changed.
    """
    using = write_alias(using)
    size = whole_number("batch_size", batch_size, 1, MOST_IN_BATCH)
    if step is not Step.REQUEUE:
        _refuse_all(tasks)
    if (to is None) == (step is Step.MOVE):
        raise TaskValueError("to", to, _("must be given for a move, and for nothing else"))
    moment = None if to is None else checked_moment("to", to, using)
    settled = tasks.settled(using)

    def rows() -> QuerySet[Task]:
        return meant(settled, step, using=using, now=clock.now(using))

    meaning = Meant(rows, settled.params(), settled.code or None)
    return change_all(meaning, step, moment, using=using, size=size, after=after)


def _refuse_all(tasks: TaskFilter) -> None:
    if not tasks:
        raise TaskValueError("tasks", tasks.words(), _("must say which tasks are meant"))


def shift(
    tasks: TaskFilter,
    by: timedelta,
    *,
    using: str | None = None,
    batch_size: int = DEFAULT_BATCH,
) -> Generator[Piece, None, None]:
    """Move all tasks that match by ``by``, which may be negative, from the time that each has.

    As ``steps`` in all else. Each is moved once: in the order of ids, of those that
    match when their batch begins.
    """
    using = write_alias(using)
    size = whole_number("batch_size", batch_size, 1, MOST_IN_BATCH)
    if not isinstance(by, timedelta):
        raise TaskTypeError("by", by, _("must be a timedelta"))
    _refuse_all(tasks)
    return _shifted(tasks.settled(using), by, using, size)


def _shifted(
    tasks: TaskFilter, by: timedelta, using: str, size: int
) -> Generator[Piece, None, None]:
    last = 0
    with told(VERBS[Step.MOVE].said, tasks.params(), using) as tell:
        while batch := _shift_next(tasks, by, last, size, using=using):
            last = batch.last_id
            tell(batch.changed, LONG_AGO)
            yield batch


@retried
def _shift_next(
    tasks: TaskFilter, by: timedelta, after: int, size: int, *, using: str
) -> Piece | None:
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
        return Piece(ids[-1], len(ids), changed, len(ids) - changed)


def _moved(when: datetime, by: timedelta) -> datetime:
    try:
        return aware("by", when + by)
    except OverflowError:
        raise TaskValueError(
            "by", by, _("is too long for a task that is due at %(when)s", when=when)
        ) from None
