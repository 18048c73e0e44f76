"""Changes by clients besides adding: cancel, pause, resume, move, requeue.

Each is a statement whose WHERE repeats what it relies on and whose row count is the answer, so it
is right whatever a worker does to the row at the same time. Django's ORM serves: none of them is on
the workers' way.

The order of the arguments of ``update()`` matters: MySQL evaluates assignments from left to right,
so ``status`` comes last wherever another column asks for its old value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from django.db.models import (
    Case,
    DateTimeField,
    F,
    Q,
    QuerySet,
    SmallIntegerField,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce

from django_tasks.models import Task
from django_tasks.store import runs
from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.timezones import aware, for_django
from django_tasks.values.calls import CALL_WORDS
from django_tasks.values.options import TaskOptions
from django_tasks.values.runs import HistoryLine
from django_tasks.values.status import OWNED, UNOWNED, Status

# How many rows one statement reads, of those that leave a line.
SLICE = 1000

Result = TypeVar("Result")


class Cancelled(NamedTuple):
    """The number of tasks that a cancel removed, and of those that go when their run ends."""

    gone: int
    going: int


class Gone(NamedTuple):
    """A task that is cancelled while it waits. ``when`` is aware UTC.

    ``payload`` is JSON text if it is a call of a function, else None.
    """

    biz_code: str
    biz_num: str
    when: datetime
    attempts: int
    payload: str | None


CancelledLine = Callable[[Gone], HistoryLine | None]


class _JsonText(Value):
    """A JSON text as the value of a column; PostgreSQL must be told what it is."""

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        return "%s::jsonb", [self.value]


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
def among(
    rows: QuerySet[Task], ids: Sequence[int], change: Callable[[Q], Result], *, using: str
) -> Result:
    """Make a change, one of those below, of all ``ids`` that are among ``rows``.

    Race: somebody changes one between the look that has found it and the write, so that it is not
    meant any more. The rows are locked first, by what was asked for; nobody changes them until our
    commit. In the order of ids, as workers do: on PostgreSQL two callers that cross wait for a
    second until they are told.
    """
    with write_transaction(using), dialect_of(using).bounded():
        locked = rows.filter(id__in=ids).order_by("id").select_for_update()
        return change(Q(id__in=list(locked.values_list("id", flat=True))))


@retried
def in_order(
    matching: Q, change: Callable[..., Result], *facts: Any, using: str, **more: Any
) -> Result:
    """Make a change of all rows that match, however many, locked as by ``among`` before it."""
    with write_transaction(using), dialect_of(using).bounded():
        rows = Task._base_manager.using(using).filter(matching).order_by("id")
        # Not iterator(): PostgreSQL's cursor raises the driver's own error where it is closed.
        list(rows.select_for_update().values_list("id", flat=True))
        return change(matching, *facts, using=using, **more)


@retried
def cancel(
    matching: Q, now: datetime, *, using: str, line_of: CancelledLine | None = None
) -> Cancelled:
    """Cancel every task that matches; ``line_of`` gives the line that the history is to keep.

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
        waiting = rows.filter(status__in=UNOWNED)
        if line_of is not None:
            for some in _in_slices(waiting):
                lines = [line for row in some if (line := line_of(row))]
                runs.write(dialect_of(using), lines)
        gone = waiting._raw_delete(using)
        return Cancelled(gone, going)


def _in_slices(rows: QuerySet[Task]) -> Iterator[list[Gone]]:
    """The facts of rows that are about to go, a thousand at a time.

    Of payloads, which may be long, those of calls alone: a line keeps no other.
    """
    is_call = Q(biz_ext__has_keys=CALL_WORDS)
    text = Case(When(is_call, then=Cast("biz_ext", TextField())), output_field=TextField())
    columns = (*("id", "biz_code", "biz_num", "when", "attempts", "rescues"), text)
    found, last = rows.order_by("id").values_list(*columns), 0
    while some := list(found.filter(id__gt=last)[:SLICE]):
        last = some[-1][0]
        yield [
            Gone(code, num, aware("when", when), attempts + rescues, payload)
            for _, code, num, when, attempts, rescues, payload in some
        ]


def discard(matching: Q, before: datetime, *, using: str) -> int:
    """Remove tasks that match, if nobody owns them and nothing has changed them since ``before``.

    One statement. Race: somebody changes one just now, and then it stays.
    """
    untouched = Q(status__in=UNOWNED, update_time__lt=for_django(before))
    rows = Task._base_manager.using(using).filter(matching & untouched)
    with dialect_of(using).bounded():
        return rows._raw_delete(using)


def pause(matching: Q, now: datetime, *, using: str) -> int:
    """PENDING → PAUSED, RUNNING → PAUSING; returns how many.

    The version moves only in an unowned row: the owner's finish must still match.
    """
    return _switch(matching, now, _PAUSED, using=using)


def resume(matching: Q, now: datetime, *, using: str) -> int:
    """PAUSED → PENDING, PAUSING → RUNNING; returns how many.

    One whose time has passed waits since now: it is not late by its pause. The time that it was
    meant for stays its ``scheduled_time``.
    """
    overdue = Q(status=Status.PAUSED, when__lt=for_django(now))
    moment = Value(for_django(dialect_of(using).storable(now)))
    times = {
        "scheduled_time": Case(
            When(overdue, then=Coalesce("scheduled_time", "when")), default=F("scheduled_time")
        ),
        "when": _when(overdue, moment, F("when")),
    }
    return _switch(matching, now, _UNPAUSED, using=using, **times)


def reschedule(matching: Q, when: datetime, now: datetime, *, using: str) -> int:
    """Move tasks to another time as an add does, payload kept; PAUSED stays paused."""
    return _move(matching, when, now, _AS_ADDED, using=using, scheduled_time=_chosen(when, using))


def replan(matching: Q, when: datetime, now: datetime, *, using: str) -> int:
    """Move tasks to a time that their schedule has chosen."""
    return _move(matching, when, now, _AS_ADDED, using=using)


def run_now(matching: Q, now: datetime, *, using: str) -> int:
    """Make tasks due at ``now``, PAUSED and FAILED ones too; a running one runs again after.

    One that waits for a time of its schedule keeps that, and goes on with it.
    """
    waits = Q(status__in=(Status.PENDING, Status.PAUSED), schedule__isnull=False)
    kept = Case(When(waits, then=Coalesce("scheduled_time", "when")), default=_chosen(now, using))
    return _move(matching, now, now, _AS_ADDED | _UNPAUSED, using=using, scheduled_time=kept)


def requeue(matching: Q, now: datetime, *, using: str) -> int:
    """Give FAILED tasks a fresh start, due at ``now``; returns how many."""
    failed = matching & Q(status=Status.FAILED)
    return _move(failed, now, now, _AS_ADDED, using=using, scheduled_time=_chosen(now, using))


def alter(matching: Q, facts: Mapping[str, Any], now: datetime, *, using: str) -> int:
    """Change what tasks say and nothing else: their time, status and attempts stay.

    The version of an unowned row moves: a claim that has read the old facts does not take it. That
    of an owned one stays, or its run would be run again. With another payload its ``update_time``
    is not its ``claim_time`` any more, and the end of the run leaves the payload alone.
    """
    moment = for_django(now)
    # A claim of this very microsecond would look untouched.
    mark = _when(Q(claim_time=moment), Value(moment + timedelta(microseconds=1)), Value(moment))
    owned = Q(status__in=OWNED)
    return _update(
        matching,
        using=using,
        **facts,
        version=F("version") + _when(owned, Value(0), Value(1)),
        update_time=mark if "biz_ext" in facts else _when(owned, F("update_time"), Value(moment)),
    )


def change(
    key: Q,
    facts: Mapping[str, Any],
    options: Callable[[TaskOptions], TaskOptions] | None,
    when: datetime | None,
    now: datetime,
    *,
    is_first: bool = False,
    using: str,
) -> bool:
    """Give the task of a key other facts, and move it if there is a ``when``; False if none is.

    ``facts`` are values of columns, ``biz_ext`` as JSON text; ``options`` makes the new options of
    the old ones. A ``when`` that ``is_first``, of a schedule, does not move a task that has that
    schedule.
    """
    if (text := facts.get("biz_ext")) is not None:
        facts = {**facts, "biz_ext": _JsonText(text, output_field=TextField())}
    if when is not None and not is_first:
        facts = {**facts, "scheduled_time": _said_by_hand(facts, when, using)}
    if options is None and not is_first:
        return bool(_change(key, facts, when, now, using=using))

    def changes(there: Task) -> tuple[Mapping[str, Any], datetime | None]:
        own = {} if options is None else {"options": options(there.options)}
        is_same = is_first and there.schedule == facts["schedule"]
        return {**facts, **own}, None if is_same else when

    return decide(key, changes, now, using=using)


@retried
def decide(
    key: Q,
    changes: Callable[[Task], tuple[Mapping[str, Any], datetime | None] | None],
    now: datetime,
    *,
    using: str,
) -> bool:
    """Change the row of a key as ``changes`` says that sees it: its columns, and its time if that
    is one to move. False if it says None, or there is no row.

    Race: somebody else changes the row meanwhile, so it is locked from the look to the write. The
    payload is not read, for it may be unreadable.
    """
    with write_transaction(using), dialect_of(using).bounded():
        rows = Task._base_manager.using(using).select_for_update().filter(key).defer("biz_ext")
        there = rows.first()
        change = None if there is None else changes(there)
        return change is not None and bool(_change(key, *change, now, using=using))


def _change(
    key: Q, facts: Mapping[str, Any], when: datetime | None, now: datetime, *, using: str
) -> int:
    if when is None:
        return alter(key, facts, now, using=using)
    return _move(key, when, now, _AS_ADDED, using=using, **facts)


_AS_ADDED = {Status.FAILED: Status.PENDING, Status.CANCELLING: Status.RUNNING}
_PAUSED = {Status.PENDING: Status.PAUSED, Status.RUNNING: Status.PAUSING}
_UNPAUSED = {Status.PAUSED: Status.PENDING, Status.PAUSING: Status.RUNNING}


def _switch(
    matching: Q, now: datetime, change: dict[Status, Status], *, using: str, **others: Any
) -> int:
    unowned = Q(status__in=[status for status in change if status in UNOWNED])
    return _update(
        matching & Q(status__in=list(change)),
        using=using,
        version=F("version") + _when(unowned, Value(1), Value(0)),
        # That of an owned row tells of its payload: see ``alter``.
        update_time=_when(unowned, Value(for_django(now)), F("update_time")),
        **others,
        status=_mapped(change),
    )


def _chosen(when: datetime, using: str) -> Case:
    moment = Value(for_django(dialect_of(using).storable(when)))
    return Case(When(schedule__isnull=False, then=moment), output_field=DateTimeField())


def _said_by_hand(facts: Mapping[str, Any], when: datetime, using: str) -> Any:
    if "schedule" not in facts:
        return _chosen(when, using)
    return facts["schedule"] and for_django(dialect_of(using).storable(when))


def _move(
    matching: Q,
    when: datetime,
    now: datetime,
    change: dict[Status, Status],
    *,
    using: str,
    scheduled_time: Any = None,
    **others: Any,
) -> int:
    owned = Q(status__in=OWNED)
    return _update(
        matching,
        using=using,
        attempts=_when(owned, F("attempts"), Value(0)),
        rescues=_when(owned, F("rescues"), Value(0)),
        last_error=_when(owned, F("last_error"), Value("", output_field=TextField())),
        exception=_when(owned, F("exception"), Value("")),
        progress=Case(When(owned, then=F("progress"))),
        # Before ``when``: MySQL's assignments see what those before them have written.
        scheduled_time=scheduled_time,
        when=for_django(dialect_of(using).storable(when)),
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
