"""The changes of many tasks: a table, the engine of bounded batches, and the lines of a cancel."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from django_tasks import signals
from django_tasks.handlers.registry import handler_for, terms_for
from django_tasks.models import Task
from django_tasks.store import clock, control
from django_tasks.store.control import CancelledLine, Gone
from django_tasks.values.calls import told_of_text
from django_tasks.values.runs import HistoryLine
from django_tasks.values.status import RunOutcome, Status
from django_tasks.wakeup.wake import LONG_AGO, wake_workers


def lines_at(now: datetime, biz_code: str | None = None) -> CancelledLine | None:
    """The lines of tasks, all of ``biz_code`` if it is given, that are cancelled at ``now``.

    A history that is not of all runs keeps none. None: no task has a line, and none is asked for.
    A call of a function tells itself how it is: this process may not have imported the function.
    """
    if biz_code is not None and handler_for(biz_code) and terms_for(biz_code).kept != "all":
        return None

    def line_of(gone: Gone) -> HistoryLine | None:
        told = told_of_text(gone.payload)
        if (told.call.results if told else terms_for(gone.biz_code).kept) != "all":
            return None
        return HistoryLine(
            gone.biz_code,
            gone.biz_num,
            gone.when,
            scheduled_time=None,
            started=now,
            ended=now,
            outcome=str(RunOutcome.CANCELLED.value),
            missed="",
            attempt=gone.attempts,
            worker="",
            error="",
            detail=gone.payload if told else None,
        )

    return line_of


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


class Verb(NamedTuple):
    """The facts of a step. ``said``: the word of ``tasks_changed``. ``called``: the function of the
    API for many tasks. ``is_due``: workers have to look at once. ``touched``: it changes these
    statuses alone.
    """

    said: str
    called: str
    change: Callable[..., Any]
    is_due: bool = False
    touched: tuple[Status, ...] = ()


VERBS = {
    Step.RUN_NOW: Verb("due now", "", control.run_now, True),
    Step.CANCEL: Verb("cancelled", "cancel_tasks", control.cancel),
    Step.PAUSE: Verb("paused", "pause", control.pause, False, (Status.PENDING, Status.RUNNING)),
    Step.RESUME: Verb("resumed", "resume", control.resume, True, (Status.PAUSED, Status.PAUSING)),
    Step.REQUEUE: Verb("requeued", "requeue_tasks", control.requeue, True, (Status.FAILED,)),
    Step.MOVE: Verb("rescheduled", "move_tasks", control.reschedule),
}


class Piece(NamedTuple):
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


class Meant(NamedTuple):
    """The tasks that are meant. ``rows`` finds them, in no order, anew for each batch; ``which``
    says so in the signal; ``code`` is that of all of them, if they have one.
    """

    rows: Callable[[], QuerySet[Task]]
    which: Mapping[str, Any]
    code: str | None


class _Changed(NamedTuple):
    number: int
    going: int = 0


def change_all(
    tasks: Meant, step: Step, to: datetime | None, *, using: str, size: int, after: int = 0
) -> Generator[Piece, None, None]:
    """Take a step with all that is meant, ``size`` of them in a transaction, in the order of ids.

    A transaction changes those alone that still match by then. If a later one fails, or nobody asks
    for it, the earlier ones stand. ``after``: the ``last_id`` from which to go on. ``to`` is the
    time of MOVE. One signal is sent where it ends: so close it. Errors of the database pass.
    """
    verb = VERBS[step]
    with told(verb.said, tasks.which, using) as tell:
        for found, ids in _in_batches(tasks.rows, size, after):
            changed = _change(found, ids, step, to, tasks.code, using)
            tell(changed.number, LONG_AGO if verb.is_due else to)
            left = len(ids) - changed.number
            yield Piece(ids[-1], len(ids), changed.number, left, changed.going)


@contextmanager
def told(
    change: str, which: Mapping[str, Any], using: str
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
                Task, change=change, which=which, count=count, using=using
            )


def touched_by(step: Step, found: QuerySet[Task]) -> QuerySet[Task]:
    """Those of the rows whose status the step changes."""
    touched = VERBS[step].touched
    return found.filter(status__in=touched) if touched else found


def _in_batches(
    rows: Callable[[], QuerySet[Task]], size: int, after: int
) -> Iterator[tuple[QuerySet[Task], list[int]]]:
    few = list(rows().values_list("id", flat=True)[: FEW + 1])
    if len(few) <= FEW:
        ids = sorted(each for each in few if each > after)
        for start in range(0, len(ids), size):
            yield rows(), ids[start : start + size]
        return
    while True:
        found = rows()
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
    using: str,
) -> _Changed:
    now = clock.now(using)

    def change(still: Q) -> _Changed:
        if step is Step.CANCEL:
            done = control.cancel(still, now, using=using, line_of=lines_at(now, code))
            return _Changed(sum(done), done.going)
        if to is not None:
            return _Changed(control.reschedule(still, to, now, using=using))
        return _Changed(VERBS[step].change(still, now, using=using))

    return control.among(found, ids, change, using=using)
