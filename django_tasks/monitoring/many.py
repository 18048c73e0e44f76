"""One step for all tasks that match a filter, without a limit, in bounded batches.

Or each is moved by the same length of time.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from django_tasks import signals
from django_tasks.client.adding import DEFAULT_BATCH, MOST_IN_BATCH
from django_tasks.client.arguments import When, checked_moment
from django_tasks.client.cancelling import lines_at
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.models import Task
from django_tasks.monitoring.filters import TaskFilter
from django_tasks.sentences import sentence as _
from django_tasks.store import clock, control
from django_tasks.store.aliases import write_alias
from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.timezones import aware
from django_tasks.values.amounts import whole_number
from django_tasks.values.status import Status
from django_tasks.wakeup.wake import LONG_AGO, wake_workers

# So many ids are read at once, by whichever index bounds the filter. Of more than that every
# thousandth row of ten million is one: then a walk along the ids meets them soon enough.
FEW = 10_000


class Step(str, Enum):
    """A change of tasks, by the name that the commands and the admin's pages have for it."""

    RUN_NOW = "run_now"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    REQUEUE = "requeue"
    MOVE = "move"

    def __str__(self) -> str:
        return self.value


class Batch(NamedTuple):
    """One transaction's work.

    ``last_id``: to go on ``after`` it. ``seen``: the tasks that were found. ``changed``: of these,
    what was changed; ``left``: what did not match any more when its turn came. ``going``: of what
    is cancelled, the ones that run and go when their runs end.
    """

    last_id: int
    seen: int
    changed: int
    left: int
    going: int = 0


class _Changed(NamedTuple):
    number: int
    going: int = 0


def meant(tasks: TaskFilter, step: Step, *, using: str, now: datetime) -> QuerySet[Task]:
    """The rows of the filter that the step changes, in no order: only what FAILED is requeued."""
    if step is Step.REQUEUE and tasks.status is None:
        tasks = replace(tasks, status=Status.FAILED)
    found = tasks.rows(using=using, now=now)
    touched = _VERBS[step].touched
    return found.filter(status__in=touched) if touched else found


def steps(
    tasks: TaskFilter,
    step: Step,
    *,
    to: When | None = None,
    using: str | None = None,
    batch_size: int = DEFAULT_BATCH,
    after: int = 0,
) -> Generator[Batch, None, None]:
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
    return _batches(tasks.settled(using), step, moment, using, size, after)


def _batches(
    tasks: TaskFilter, step: Step, to: datetime | None, using: str, size: int, after: int
) -> Generator[Batch, None, None]:
    verb = _VERBS[step]
    with _told(tasks, verb.said, using) as tell:
        for found, ids in _in_batches(tasks, step, using, size, after):
            changed = _change(found, ids, step, to, tasks.code or None, using=using)
            tell(changed.number, LONG_AGO if verb.is_due else to)
            left = len(ids) - changed.number
            yield Batch(ids[-1], len(ids), changed.number, left, changed.going)


@contextmanager
def _told(
    tasks: TaskFilter, change: str, using: str
) -> Iterator[Callable[[int, datetime | None], None]]:
    """Tell workers of each number that was changed, and at the end all others, by one signal."""
    count = 0

    def tell(number: int, due: datetime | None) -> None:
        nonlocal count
        count += number
        if number and due is not None:
            wake_workers(due, using, number)

    try:
        yield tell
    finally:
        if count:
            signals.tasks_changed.send_robust(
                Task, change=change, which=tasks.params(), count=count, using=using
            )


def _refuse_all(tasks: TaskFilter) -> None:
    if not tasks:
        raise TaskValueError("tasks", tasks.words(), _("must say which tasks are meant"))


def _in_batches(
    tasks: TaskFilter, step: Step, using: str, size: int, after: int
) -> Iterator[tuple[QuerySet[Task], list[int]]]:
    found = meant(tasks, step, using=using, now=clock.now(using))
    few = list(found.values_list("id", flat=True)[: FEW + 1])
    if len(few) <= FEW:
        ids = sorted(each for each in few if each > after)
        for start in range(0, len(ids), size):
            yield meant(tasks, step, using=using, now=clock.now(using)), ids[start : start + size]
        return
    while True:
        found = meant(tasks, step, using=using, now=clock.now(using))
        further = found.filter(id__gt=after).order_by("id").values_list("id", flat=True)
        if not (ids := list(further[:size])):
            return
        yield found, ids
        after = ids[-1]


def _change(
    found: QuerySet[Task],
    ids: list[int],
    step: Step,
    to: datetime | None,
    code: str | None,
    *,
    using: str,
) -> _Changed:
    """Change those of ``ids`` that still match."""
    now = clock.now(using)

    def change(still: Q) -> _Changed:
        if step is Step.CANCEL:
            done = control.cancel(still, now, using=using, line_of=lines_at(now, code))
            return _Changed(sum(done), done.going)
        if to is not None:
            return _Changed(control.reschedule(still, to, now, using=using))
        return _Changed(_VERBS[step].change(still, now, using=using))

    return control.among(found, ids, change, using=using)


def shift(
    tasks: TaskFilter,
    by: timedelta,
    *,
    using: str | None = None,
    batch_size: int = DEFAULT_BATCH,
) -> Generator[Batch, None, None]:
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
) -> Generator[Batch, None, None]:
    last = 0
    with _told(tasks, _VERBS[Step.MOVE].said, using) as tell:
        while batch := _shift_next(tasks, by, last, size, using=using):
            last = batch.last_id
            tell(batch.changed, LONG_AGO)
            yield batch


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


class _Verb(NamedTuple):
    """The facts of a step. ``said``: the word of ``tasks_changed``, as of ``cancel_tasks`` and the
    others. ``is_due``: workers have to look at once. ``touched``: it changes these statuses alone.
    """

    said: str
    change: Callable[..., Any]
    is_due: bool = False
    touched: tuple[Status, ...] = ()


_VERBS = {
    Step.RUN_NOW: _Verb("due now", control.run_now, True),
    Step.CANCEL: _Verb("cancelled", control.cancel),
    Step.PAUSE: _Verb("paused", control.pause, touched=(Status.PENDING, Status.RUNNING)),
    Step.RESUME: _Verb("resumed", control.resume, True, (Status.PAUSED, Status.PAUSING)),
    Step.REQUEUE: _Verb("requeued", control.requeue, True, (Status.FAILED,)),
    Step.MOVE: _Verb("rescheduled", control.reschedule),
}
