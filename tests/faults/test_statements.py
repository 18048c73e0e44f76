"""Every public operation, cut off before and after every statement it sends.

What it leaves is what was there before or what would be there after, and nothing in between; and
repeating it afterwards leaves what one undisturbed call would have left.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import Group
from django.db import Error, transaction

from django_tasks import api
from django_tasks.models import EndedPause, Gate, Pause, Task, TaskRun, WorkerRow
from django_tasks.store import clock, workers
from django_tasks.store.claim import Claimer, claim, claim_alone
from django_tasks.store.finish import Ended, finish, finish_inside
from django_tasks.store.gates import add_gate, pass_gate
from django_tasks.store.rescue import give_back_strays, rescue
from django_tasks.store.transactions import write_transaction
from django_tasks.values.conflicts import Conflict, ConflictOfMany
from django_tasks.values.limits import as_limit
from django_tasks.values.outcomes import Done, Fail, GiveBack, Outcome, Reschedule, Retry
from django_tasks.values.status import Status
from tests.factories import (
    CODE,
    NOW,
    WORKER,
    a_claim,
    a_lane,
    a_line,
    a_row,
    a_task,
    a_worker,
    later,
    rows,
)
from tests.faults.statements import AFTER, BEFORE, counted

pytestmark = pytest.mark.django_db(transaction=True)


class Operation(NamedTuple):
    """``act`` on what ``arrange`` made and returned."""

    arrange: Callable[[], Any]
    act: Callable[[Any], Any]


def nothing() -> None:
    return None


def waiting() -> None:
    a_row("1", when=later(60))


def owned(status: Status = Status.RUNNING) -> Callable[[], None]:
    return in_status(status)


def in_status(status: Status) -> Callable[[], None]:
    def arrange() -> None:
        a_row("1", status=status)

    return arrange


def three() -> None:
    rows("123")


def add(on_conflict: Conflict, **fields: Any) -> Callable[[Any], Any]:
    return lambda _: api.add_task(a_task("1", **fields), on_conflict=on_conflict)


def add_many(on_conflict: ConflictOfMany = "replace") -> Callable[[Any], Any]:
    tasks = [a_task(str(number), biz_ext={"n": number}) for number in range(1, 6)]
    return lambda _: api.add_tasks(tasks, batch_size=2, on_conflict=on_conflict)


def by_key(function: Callable[..., Any], *more: Any) -> Callable[[Any], Any]:
    return lambda _: function(CODE, "1", *more)


def ended(outcome: Outcome) -> Callable[[Any], Any]:
    return lambda claimed: finish([Ended(claimed, outcome)], NOW, using="default")


def told(outcome: Outcome) -> Callable[[Any], Any]:
    """As ``ended``, of a run that the history is to keep."""
    line = a_line(outcome=outcome.counts_as)
    return lambda claimed: finish([Ended(claimed, outcome, line=line)], NOW, using="default")


def moved() -> Any:
    """A claim whose row was added again since."""
    claimed = a_claim()
    api.add_task(a_task("1", biz_ext="new"))
    return claimed


def cancelled() -> Any:
    claimed = a_claim()
    api.cancel_task(CODE, "1")
    return claimed


def with_business(outcome: Any) -> Callable[[Any], Any]:
    """The work of an ``atomic`` run: business and its own end, in one transaction."""

    def act(claimed: Any) -> None:
        with write_transaction("default"):
            Group.objects.create(name=f"business {Group.objects.count()}")
            finish_inside([Ended(claimed, outcome, line=a_line())], NOW, using="default")

    return act


def claims(function: Callable[..., Any] = claim, **facts: Any) -> Callable[[Any], Any]:
    more = () if function is claim_alone else (10,)
    return lambda _: function(Claimer(WORKER), a_lane(), NOW, *more, using="default", **facts)


def before_a_gate() -> None:
    # At different times: not all of them pass, and of equal ones any may be the first.
    for seconds, number in enumerate("321"):
        a_row(number, when=later(-seconds))
    add_gate(CODE, using="default")


def through_a_gate(_: Any) -> Any:
    def take(free: int) -> Any:
        return claim(Claimer(WORKER), a_lane(), NOW, free, using="default", careful=True)

    limit = as_limit(2, "40/s")
    assert limit
    return pass_gate(CODE, limit, NOW, take, using="default")


def paused() -> None:
    api.pause_tasks(biz_code=CODE)


def register(_: Any) -> int:
    return workers.register(workers.Registration("host", 30.0, 8), NOW, using="default")


def beat(worker: Any) -> bool:
    return workers.beat(
        worker.pk, later(10), workers.Signs("stopping", {"done": 1}), using="default"
    )


def leave(worker: Any) -> bool:
    return workers.remove(worker.pk, using="default")


def rescued(_: Any) -> Any:
    return rescue([WORKER], lambda code: 1, NOW, using="default")


def orphans() -> None:
    a_row("1", status=Status.RUNNING)
    a_row("2", status=Status.PAUSING)
    a_row("3", status=Status.CANCELLING)
    a_row("4", status=Status.RUNNING, rescues=2, attempts=3)


def strays(_: Any) -> int:
    return give_back_strays(WORKER, set(), NOW, using="default")


OPERATIONS: dict[str, Operation] = {
    **{
        f"add {on_conflict} {name}": Operation(arrange, add(on_conflict, biz_ext={"a": 1}))
        for on_conflict in ("replace", "keep", "earliest", "raise")
        for name, arrange in (
            ("new", nothing),
            ("waiting", waiting),
            ("running", owned()),
            ("cancelling", owned(Status.CANCELLING)),
        )
    },
    **{
        f"add many {on_conflict}": Operation(waiting, add_many(on_conflict))
        for on_conflict in ("replace", "keep", "earliest", "raise")
    },
    "cancel waiting": Operation(waiting, by_key(api.cancel_task)),
    "cancel running": Operation(owned(), by_key(api.cancel_task)),
    "delete": Operation(three, by_key(api.delete_tasks)),
    "pause waiting": Operation(waiting, by_key(api.pause_task)),
    "pause running": Operation(owned(), by_key(api.pause_task)),
    "resume paused": Operation(in_status(Status.PAUSED), by_key(api.resume_task)),
    "resume pausing": Operation(owned(Status.PAUSING), by_key(api.resume_task)),
    "reschedule": Operation(waiting, by_key(api.reschedule_task, later(5))),
    "reschedule running": Operation(owned(), by_key(api.reschedule_task, later(5))),
    "run now": Operation(waiting, by_key(api.run_task_now)),
    "requeue": Operation(in_status(Status.FAILED), by_key(api.requeue_task)),
    "claim": Operation(three, claims()),
    "claim carefully": Operation(three, claims(careful=True)),
    "claim alone": Operation(lambda: a_row("1", rescues=2), claims(claim_alone)),
    "claim through a gate": Operation(before_a_gate, through_a_gate),
    "pause a code": Operation(three, lambda _: api.pause_tasks(biz_code=CODE)),
    "resume a code": Operation(paused, lambda _: api.resume_tasks(biz_code=CODE)),
    "finish done": Operation(a_claim, ended(Done())),
    "finish reschedule": Operation(a_claim, ended(Reschedule(later(9), '{"b": 1}'))),
    "finish retry": Operation(a_claim, ended(Retry(later(9), "oh"))),
    "finish fail": Operation(a_claim, ended(Fail("oh"))),
    "finish done and tell": Operation(a_claim, told(Done())),
    "finish retry and tell": Operation(a_claim, told(Retry(later(9), "oh"))),
    "hand over and tell": Operation(moved, told(Done())),
    "give back": Operation(a_claim, ended(GiveBack())),
    "hand over": Operation(moved, ended(Done())),
    "hand over rescheduled": Operation(moved, ended(Reschedule(later(9)))),
    "hand over cancelled": Operation(cancelled, ended(Done())),
    "atomic done": Operation(a_claim, with_business(Done())),
    "atomic reschedule": Operation(a_claim, with_business(Reschedule(later(9)))),
    "atomic hand over": Operation(moved, with_business(Done())),
    "rescue": Operation(orphans, rescued),
    "strays": Operation(orphans, strays),
    "register": Operation(nothing, register),
    "beat": Operation(a_worker, beat),
    "leave": Operation(a_worker, leave),
}

# Repeating these is the caller's way to fail: the first call has been carried out.
REFUSE_TO_REPEAT = {"add raise new", "add raise cancelling"}


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda using: NOW)


@pytest.fixture
def clean() -> Iterator[Callable[[], None]]:
    def wipe() -> None:
        for model in (Task, TaskRun, WorkerRow, Pause, EndedPause, Gate, Group):
            model._base_manager.all().delete()

    yield wipe
    wipe()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_cut_leaves_it_done_or_not_done_and_repeating_it_does_it_once(name, clean):
    operation = OPERATIONS[name]
    before, after, count = undisturbed(operation, clean)
    assert count > 0
    for number in range(1, count + 1):
        for side in (BEFORE, AFTER):
            place = f"{name}, {side} statement {number} of {count}"
            clean()
            made = operation.arrange()
            attempt(operation, made, number, side)
            when_rolled_back()
            assert state() in (before, after), place
            was_done = state() == after
            repeat(operation, made, name, was_done=was_done and before != after)
            assert lasting(state()) == lasting(after), f"{place}, then repeated"


def undisturbed(operation: Operation, clean: Callable[[], None]) -> tuple[Any, Any, int]:
    clean()
    made = operation.arrange()
    before = state()
    with counted() as statements:
        quietly(operation, made)
    return before, state(), statements.count


def attempt(operation: Operation, made: Any, number: int, side: str) -> None:
    with counted(number, side):
        quietly(operation, made)


def when_rolled_back() -> None:
    """Wait until the server has noticed that its client is gone: the locks of what it had not
    committed are free then. A claim would step over them.
    """
    with transaction.atomic():
        for model in (Task, Gate):
            list(model._base_manager.select_for_update())


def repeat(operation: Operation, made: Any, name: str, *, was_done: bool) -> None:
    if name.startswith("atomic") and was_done:
        # Its run does not repeat what its row no longer waits for; the fence sees to that.
        with pytest.raises(api.TaskException):
            operation.act(made)
    elif name == "register" and was_done:
        return  # a row nobody renews: it is dead after its lease
    elif name in REFUSE_TO_REPEAT and was_done:
        with pytest.raises(api.TaskExists):
            operation.act(made)
    else:
        quietly(operation, made)


def quietly(operation: Operation, made: Any) -> None:
    """Cut, or refused as on_conflict="raise" does: what counts is what is left."""
    with suppress(Error, api.TaskExists):
        operation.act(made)


class State(NamedTuple):
    tasks: list[tuple[Any, ...]]
    versions: list[int]
    workers: list[tuple[Any, ...]]
    pauses: list[tuple[Any, ...]]
    gates: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    business: int


def state() -> State:
    """All that is in the tables."""
    columns = ("biz_code", "biz_num", "status", "when", "attempts", "rescues", "claimed_by")
    tasks = Task.objects.order_by("biz_num")
    more = ("last_error", "queue", "priority", "claim_time")
    payloads = tasks.values_list("biz_ext", flat=True)
    return State(
        [
            (*row, repr(payload))
            for row, payload in zip(tasks.values_list(*columns, *more), payloads, strict=True)
        ],
        list(tasks.values_list("version", flat=True)),
        list(WorkerRow.objects.values_list("name", "state", "heartbeat")),
        [
            *Pause.objects.values_list("queue", "biz_code", "since"),
            *EndedPause.objects.values_list("queue", "biz_code", "ended"),
        ],
        list(Gate.objects.values_list("biz_code", "passes", "full_until")),
        list(TaskRun.objects.values_list("biz_num", "started", "outcome", "attempt", "error")),
        Group.objects.count(),
    )


def lasting(found: State) -> State:
    """Without the versions, which grow with each repetition."""
    return found._replace(versions=[])
