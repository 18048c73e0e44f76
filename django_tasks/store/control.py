"""Changes by clients besides adding: cancel, pause, resume, move, requeue.

Each is a statement whose WHERE repeats what it relies on and whose row count is the answer, so it
is right whatever a worker does to the row at the same time. Django's ORM serves: none of them is on
the workers' way.

The order of the arguments of ``update()`` matters: MySQL evaluates assignments from left to right,
so ``status`` comes last wherever another column asks for its old value.
"""

from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

from django.db.models import Case, F, Q, SmallIntegerField, TextField, Value, When

from django_tasks.models import Task
from django_tasks.store.dialects import dialect_of
from django_tasks.store.search import Planned
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.timezones import for_django
from django_tasks.values.status import OWNED, UNOWNED, Status


class Cancelled(NamedTuple):
    """The number of tasks that a cancel removed, and of those that go when their run ends."""

    gone: int
    going: int


class CancelResult(str, Enum):
    """The answer of ``cancel_task``. NOT_FOUND is false, the others are true."""

    CANCELLED = "cancelled"  # it was waiting: its row is gone and it will not start
    CANCELLING = "cancelling"  # it runs: its handler can see it, its row goes with the run
    NOT_FOUND = "not_found"  # there is no such task

    def __bool__(self) -> bool:
        # Not as of a text: the functions beside cancel_task answer False where there is no task.
        return self is not CancelResult.NOT_FOUND

    def __str__(self) -> str:
        return self.value


@retried
def cancel(matching: Q, now: datetime, *, using: str) -> Cancelled:
    """Cancel every task that matches.

    The first statement locks the rows by changing them: from then on none can be claimed or
    finished in between, and a row is either owned or not.
    """
    with write_transaction(using), dialect_of(using).bounded():
        rows = Task._base_manager.using(using).filter(matching)
        if not rows.update(version=F("version") + 1, update_time=for_django(now)):
            return Cancelled(0, 0)
        going = rows.filter(status__in=OWNED).update(status=Status.CANCELLING)
        # Not delete(): with a listener of pre_delete it reads first and then deletes by id alone,
        # and our guard would be gone.
        gone = rows.filter(status__in=UNOWNED)._raw_delete(using)
        return Cancelled(gone, going)


def pause(matching: Q, now: datetime, *, using: str) -> int:
    """PENDING → PAUSED, RUNNING → PAUSING; returns how many.

    The version moves only in an unowned row: the owner's finish must still match.
    """
    return _switch(matching, now, _PAUSED, using=using)


def resume(matching: Q, now: datetime, *, using: str) -> int:
    """PAUSED → PENDING, PAUSING → RUNNING; returns how many."""
    return _switch(matching, now, _UNPAUSED, using=using)


def reschedule(matching: Q, when: datetime, now: datetime, *, using: str) -> int:
    """Move tasks to another time as an add does, payload kept; PAUSED stays paused."""
    return _move(matching, when, now, _AS_ADDED, using=using)


def run_now(matching: Q, now: datetime, *, using: str) -> int:
    """Make tasks due at ``now``, PAUSED and FAILED ones too; a running one runs again after."""
    return _move(matching, now, now, _AS_ADDED | _UNPAUSED, using=using)


def requeue(matching: Q, now: datetime, *, using: str) -> int:
    """Give FAILED tasks a fresh start, due at ``now``; returns how many."""
    failed = matching & Q(status=Status.FAILED)
    return _move(failed, now, now, _AS_ADDED, using=using)


def replan(matching: Q, plan: Planned, when: datetime, now: datetime, *, using: str) -> int:
    """Give tasks another plan and the time of their next run; otherwise as ``reschedule``."""
    return _move(matching, when, now, _AS_ADDED, using=using, **plan._asdict())


_AS_ADDED = {Status.FAILED: Status.PENDING, Status.CANCELLING: Status.RUNNING}
_PAUSED = {Status.PENDING: Status.PAUSED, Status.RUNNING: Status.PAUSING}
_UNPAUSED = {Status.PAUSED: Status.PENDING, Status.PAUSING: Status.RUNNING}


def _switch(matching: Q, now: datetime, change: dict[Status, Status], *, using: str) -> int:
    unowned = [status for status in change if status in UNOWNED]
    return _update(
        matching & Q(status__in=list(change)),
        using=using,
        version=F("version") + _when(Q(status__in=unowned), Value(1), Value(0)),
        update_time=for_django(now),
        status=_mapped(change),
    )


def _move(
    matching: Q,
    when: datetime,
    now: datetime,
    change: dict[Status, Status],
    *,
    using: str,
    **others: Any,
) -> int:
    owned = Q(status__in=OWNED)
    return _update(
        matching,
        using=using,
        attempts=_when(owned, F("attempts"), Value(0)),
        rescues=_when(owned, F("rescues"), Value(0)),
        last_error=_when(owned, F("last_error"), Value("", output_field=TextField())),
        when=for_django(dialect_of(using).storable(when)),
        scheduled_time=None,
        latest_time=None,
        **others,
        version=F("version") + 1,
        update_time=for_django(now),
        status=_mapped(change),
    )


@retried
def _update(matching: Q, *, using: str, **changes: Any) -> int:
    with dialect_of(using).bounded():
        return Task._base_manager.using(using).filter(matching).update(**changes)


def _mapped(change: dict[Status, Status]) -> Case:
    cases = [When(status=old, then=Value(int(new))) for old, new in change.items()]
    return Case(*cases, default=F("status"), output_field=SmallIntegerField())


def _when(condition: Q, then: Any, otherwise: Any) -> Case:
    return Case(When(condition, then=then), default=otherwise)
