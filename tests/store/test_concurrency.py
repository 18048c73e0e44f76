"""Races between real connections. Rows are committed; every thread has a connection of its own."""

import random
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import chain
from threading import Barrier, Event
from time import monotonic
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from django_tasks import api
from django_tasks.api import add_task, add_tasks, cancel_task
from django_tasks.client.changes import Step
from django_tasks.handlers.base import TaskHandler
from django_tasks.models import Task
from django_tasks.reads import many
from django_tasks.reads.filters import TaskFilter
from django_tasks.store.claim import Claimer, claim, claim_alone, owned_ids
from django_tasks.store.dialects import Bounds, dialect_of
from django_tasks.store.dialects.mysql import MySQL
from django_tasks.store.dialects.postgresql import PostgreSQL
from django_tasks.store.finish import Ended, FinishResult, finish
from django_tasks.store.rescue import give_back_strays, rescue
from django_tasks.store.transactions import is_contention
from django_tasks.values.hosts import number_of
from django_tasks.values.outcomes import Done, Fail, GiveBack, Outcome, Reschedule, Retry
from django_tasks.values.status import Status
from django_tasks.worker import recurring
from tests.conftest import DEADLINE
from tests.factories import (
    CODE,
    NOW,
    WORKER,
    a_claim,
    a_lane,
    a_row,
    a_task,
    later,
    rows,
    state,
    table,
    the_row,
    there_is,
)
from tests.vendor import POSTGRESQL, SERVERS, only_on
from tests.waiting import eventually
from tests.worker.parts import config

pytestmark = pytest.mark.django_db(transaction=True)

DEAD = 5


@pytest.fixture
def together(elsewhere):
    """Run functions at the same time, each in its thread; their results, in order."""

    def run(*functions):
        start = Barrier(len(functions), timeout=DEADLINE)

        def started(function):
            connection.ensure_connection()
            start.wait()
            return function()

        futures = [elsewhere(started, function) for function in functions]
        return [future.result(DEADLINE) for future in futures]

    return run


def stubborn(operation, *args, **kwargs):
    """As a poller does: when somebody else was in the way, again."""
    for _ in range(100):
        try:
            return operation(*args, **kwargs, using="default")
        except DatabaseError as error:
            if not is_contention("default", error):
                raise
    raise AssertionError("always in somebody's way")


def take(worker, limit=10, *, workers=2, now=NOW, careful=False):
    return stubborn(claim, Claimer(worker, workers), a_lane(), now, limit, careful=careful)


# Claims


@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
@pytest.mark.parametrize("limit", [1, 7, 50])
def test_claimers_share_no_row_and_leave_none(together, limit, careful):
    count = 60 if limit == 1 else 300
    rows(range(count), when=later(-1))

    def drain(worker):
        taken, misses = [], 0
        while misses < 20:  # a claim that lost every row to another one is not the end
            batch = take(worker, limit, careful=careful)
            taken += batch
            misses = 0 if batch else misses + 1
        return {item.id for item in taken}

    shares = together(*[lambda worker=worker: drain(worker) for worker in range(1, 5)])

    assert sum(map(len, shares)) == len(set.union(*shares)) == count
    for worker, share in enumerate(shares, 1):
        assert owned_ids(worker, using="default") == share
    assert set(Task.objects.values_list("version", flat=True)) == {1}


def test_only_one_claims_a_row_that_must_run_alone(together):
    for _ in range(10):
        a_row(rescues=2)

        def alone(worker):
            return stubborn(claim_alone, Claimer(worker, 4), a_lane(), NOW)

        taken = [*chain(*together(*[lambda w=worker: alone(w) for worker in range(1, 5)]))]

        assert len(taken) == 1
        assert state() == (Status.RUNNING, 1, taken[0].worker_id)
        table().delete()


def test_what_was_cancelled_before_a_claim_never_starts(together):
    results = set()
    for _ in range(40):
        a_row()
        cancelled, taken = together(lambda: cancel_task(CODE, "1"), lambda: take(WORKER))
        results.add(cancelled)
        if cancelled == api.CancelResult.CANCELLED:
            assert taken == []
            assert not there_is()
        else:
            assert cancelled == api.CancelResult.CANCELLING
            assert len(taken) == 1
            assert state() == (Status.CANCELLING, 2, WORKER)
        table().delete()
    assert results


def test_what_was_paused_before_a_claim_never_starts(together):
    for _ in range(40):
        a_row()
        paused, taken = together(lambda: api.pause_task(CODE, "1"), lambda: take(WORKER))
        assert paused
        if taken:
            assert state() == (Status.PAUSING, 1, WORKER)
        else:
            assert state() == (Status.PAUSED, 1, None)
        table().delete()


# Adds


def test_adding_one_key_many_times_at_once_makes_one_row_that_knows_of_every_add(together):
    def add(who):
        for n in range(15):
            add_task(a_task(biz_ext=[who, n]))

    together(*[lambda who=who: add(who) for who in range(6)])

    assert state() == (Status.PENDING, 6 * 15 - 1, None)
    last: Any = the_row().biz_ext
    assert last[1] == 14


def test_only_one_of_many_keeps_is_the_task(together):
    for _ in range(10):

        def add(who):
            return add_task(a_task(biz_ext=who), on_conflict="keep")

        stored = together(*[lambda who=who: add(who) for who in range(6)])

        assert len({task.pk for task in stored}) == 1
        assert len({task.biz_ext for task in stored}) == 1
        assert state() == (Status.PENDING, 0, None)
        table().delete()


def test_only_one_of_many_that_insist_on_a_new_key_gets_it(together):
    for _ in range(10):

        def add(who):
            try:
                return add_task(a_task(biz_ext=who), on_conflict="raise").biz_ext
            except api.TaskExists:
                return None

        winners = [
            who for who in together(*[lambda w=w: add(w) for w in range(6)]) if who is not None
        ]

        assert winners == [the_row().biz_ext]
        table().delete()


def test_of_many_times_the_earliest_stays(together):
    for _ in range(5):
        seconds = random.sample(range(100), 24)

        def add(mine):
            for second in mine:
                add_task(a_task(when=later(second), biz_ext=second), on_conflict="earliest")

        together(*[lambda n=n, s=seconds: add(s[n::4]) for n in range(4)])

        assert the_row().biz_ext == min(seconds)
        table().delete()


@pytest.mark.parametrize("on_conflict", ["replace", "keep", "earliest"])
@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_crosswise_batches_of_the_same_keys_all_succeed(together, batch_size, on_conflict):
    numbers = [str(n) for n in range(24)]

    def add(order):
        for _ in range(6):
            add_tasks(map(a_task, order), batch_size=batch_size, on_conflict=on_conflict)

    together(*[lambda step=step: add(numbers[::step]) for step in (1, -1, 1, -1)])

    versions = set(Task.objects.values_list("version", flat=True))
    assert versions == ({23} if on_conflict == "replace" else {0})
    assert Task.objects.count() == 24


def test_crosswise_batches_of_new_keys_all_succeed(together):
    def add(round_, step):
        add_tasks([a_task(f"{round_}-{n}") for n in range(20)][::step], batch_size=4)

    for round_ in range(6):
        together(*[lambda r=round_, s=s: add(r, s) for s in (1, -1, 1, -1)])

    assert Task.objects.count() == 120


@pytest.mark.parametrize("on_conflict", ["replace", "keep", "earliest"])
def test_transactions_that_add_one_existing_key_wait_for_each_other(together, on_conflict):
    """No deadlock: a caller's transaction cannot be repeated by us."""
    a_row("1")

    def add():
        for _ in range(20):
            with transaction.atomic():
                add_task(a_task(when=later(60)), on_conflict=on_conflict)

    together(*[add] * 4)

    assert state()[1] == (80 if on_conflict == "replace" else 0)


def test_an_add_and_a_cancel_never_break_each_other(together):
    def add():
        for _ in range(20):
            add_task(a_task(biz_ext="added"))

    def cancel():
        return [cancel_task(CODE, "1") for _ in range(20)]

    together(add, cancel, add, cancel)

    assert not there_is() or state()[0] == Status.PENDING


# Ends


@pytest.mark.parametrize(
    "outcome", [Done(), Reschedule(later(60), "1"), Retry(later(60), "oops"), Fail("oops")]
)
def test_an_add_that_meets_a_finish_is_never_lost(together, outcome):
    for _ in range(25):
        claimed = a_claim()

        _, result = together(
            lambda: add_task(a_task(when=later(99), biz_ext="added")),
            lambda c=claimed: stubborn(finish, [Ended(c, outcome)], NOW),
        )

        row = the_row()
        assert (row.status, row.biz_ext, row.claimed_by) == (Status.PENDING, "added", None)
        assert (row.attempts, row.last_error) == (0, "")
        assert not result.lost
        table().delete()


def test_a_cancel_that_meets_a_finish_leaves_nothing_that_runs(together):
    for _ in range(25):
        claimed = a_claim()

        cancelled, result = together(
            lambda: cancel_task(CODE, "1"),
            lambda c=claimed: stubborn(finish, [Ended(c, Reschedule(later(60)))], NOW),
        )

        assert not there_is()
        expected = {api.CancelResult.CANCELLED: set(), api.CancelResult.CANCELLING: {claimed.id}}
        assert result == FinishResult(expected[cancelled], set(), set())


def test_a_pause_that_meets_a_finish_is_not_forgotten(together):
    for _ in range(25):
        claimed = a_claim()

        paused, result = together(
            lambda: api.pause_task(CODE, "1"),
            lambda c=claimed: stubborn(finish, [Ended(c, Reschedule(later(60)))], NOW),
        )

        assert paused
        assert result == FinishResult(set(), set(), set())
        assert state()[0] == Status.PAUSED
        table().delete()


def test_a_dead_worker_that_finishes_during_its_rescue_counts_once_or_not_at_all(together):
    for _ in range(25):
        claimed = a_claim(worker=DEAD)

        result, rescued = together(
            lambda c=claimed: stubborn(finish, [Ended(c, Done())], NOW),
            lambda: rescue([DEAD], lambda code: 3, NOW, using="default"),
        )

        assert len(result.lost) == len(rescued.freed)
        assert there_is() == bool(rescued.freed)
        if rescued.freed:
            assert state() == (Status.PENDING, 2, None)
        table().delete()


def test_rescuers_free_each_row_once(together):
    rows(range(100), status=Status.RUNNING, claimed_by=DEAD)

    def free():  # two rescuers may meet in an index: MariaDB calls that a deadlock
        count = 0  # and may step over a row that the other holds for a moment: it calls again
        while freed := len(stubborn(rescue, [DEAD], lambda code: 3, NOW).freed):
            count += freed
        return count

    assert sum(together(*[free] * 4)) == 100
    assert set(Task.objects.values_list("rescues", "version", "status")) == {(1, 1, 0)}


def test_adds_in_the_order_of_keys_and_finishes_in_the_order_of_ids_get_along(together):
    numbers = [f"{n:02}" for n in range(30)]

    def add():
        for _ in range(4):
            add_tasks(map(a_task, numbers), batch_size=5)

    def work():
        for _ in range(6):
            ends = [Ended(claimed, GiveBack()) for claimed in take(WORKER, 30, workers=1)]
            random.shuffle(ends)
            assert not stubborn(finish, ends, NOW).lost

    for number in reversed(numbers):  # so that ids and keys are in opposite orders
        a_row(number)
    together(add, work, add)

    assert not owned_ids(WORKER, using="default")
    assert Task.objects.filter(status=Status.PENDING).count() == 30


def test_workers_and_clients_at_once_lose_nothing_and_run_nothing_twice(together):
    """Every payload that was added last is run, and no row has two owners."""
    numbers = [str(n) for n in range(6)]
    lanes_left = Event()
    outcomes: list[Outcome] = [Done(), Reschedule(NOW), GiveBack()]

    def work(worker):
        seen, idle, end = [], 0, monotonic() + DEADLINE
        while idle < 30:
            assert monotonic() < end
            taken = take(worker, 4)
            for item in taken:
                assert item.worker_id == worker
            seen += [(item.id, item.version, item.biz_num, item.biz_ext) for item in taken]
            choice = random.choice(outcomes)
            stubborn(finish, [Ended(item, choice) for item in taken], NOW)
            idle = idle + 1 if lanes_left.is_set() and not taken else 0
        return seen

    def act(who):
        clients = [api.pause_task, api.resume_task, api.run_task_now]
        for n in range(60):
            number = random.choice(numbers)
            add_task(a_task(number, biz_ext=f"{who}-{n}"))
            random.choice(clients)(CODE, random.choice(numbers))
            if n % 10 == 9:
                cancel_task(CODE, number)

    def acting(who):
        act(who)
        finished.wait()
        if who == 0:
            for number in numbers:
                api.resume_task(CODE, number)
                add_task(a_task(number, biz_ext="last"))
            lanes_left.set()

    finished = Barrier(2, timeout=DEADLINE)
    *seen, _, _ = together(lambda: work(1), lambda: work(2), lambda: acting(0), lambda: acting(1))

    everything = list(chain(*seen))
    claims = [(row, version) for row, version, _, _ in everything]
    assert len(claims) == len(set(claims))
    last = {number for _, _, number, ext in everything if ext == '"last"'}
    assert last == set(numbers)
    assert not owned_ids(1, using="default")
    assert not owned_ids(2, using="default")


# Rows that somebody holds locked


@pytest.fixture
def held(elsewhere):
    """A context in which another connection holds the locks that an action took."""

    @contextmanager
    def hold(action):
        done, let_go = Event(), Event()

        def run():
            with transaction.atomic():
                action()
                done.set()
                assert let_go.wait(DEADLINE)

        future = elsewhere(run)
        try:
            assert done.wait(DEADLINE)
            yield
        finally:
            let_go.set()
            future.result(DEADLINE)

    return hold


has_row_locks = only_on(*SERVERS, because="SQLite locks the whole file")


@pytest.fixture
def impatient(monkeypatch):
    """Nothing waits for a lock for longer than a second, and nothing is repeated."""
    for dialect in (MySQL, PostgreSQL):
        monkeypatch.setattr(dialect, "contention_retries", 0)
    # A planner that sees three rows reads them all, and meets locks that are none of its business.
    rows(range(300), biz_code="filler", when=later(99))
    dialect_of("default").bound(Bounds(1, 30))
    yield
    connection.close()


@has_row_locks
def test_a_careful_claim_steps_over_a_locked_row(held, impatient):
    a_row("locked", when=later(-9))
    a_row("free")

    with held(lambda: add_task(a_task("locked"))):
        taken = claim(Claimer(WORKER), a_lane(), NOW, 10, using="default", careful=True)
        assert [item.biz_num for item in taken] == ["free"]


@has_row_locks
@pytest.mark.parametrize("outcome", [Done(), Retry(later(60), "oops")])
def test_a_careful_finish_steps_over_a_locked_row(held, impatient, outcome):
    locked, free, gone = (a_claim(number) for number in ("locked", "free", "gone"))
    table(biz_num="gone").delete()
    ends = [Ended(claimed, outcome) for claimed in (locked, free, gone)]

    with held(lambda: add_task(a_task("locked", biz_ext="added"))):
        result = finish(ends, NOW, using="default", careful=True)
        assert result == FinishResult(set(), {gone.id}, {locked.id})

    assert finish(ends[:1], NOW, using="default").handed_over == {locked.id}
    assert the_row("locked").biz_ext == "added"


@has_row_locks
def test_a_lock_that_is_waited_for_too_long_counts_as_contention(held, impatient):
    claimed = a_claim()

    with held(lambda: add_task(a_task())), pytest.raises(DatabaseError) as caught:
        finish([Ended(claimed, Done())], NOW, using="default")
    assert is_contention("default", caught.value)


@has_row_locks
def test_a_locked_row_of_the_living_does_not_keep_the_dead_from_being_rescued(held, impatient):
    a_row("alive", status=Status.RUNNING, claimed_by=WORKER)
    a_row("orphan", status=Status.RUNNING, claimed_by=DEAD)

    with held(lambda: add_task(a_task("alive"))):
        assert len(rescue([DEAD], lambda code: 3, NOW, using="default").freed) == 1


@has_row_locks
def test_a_locked_orphan_does_not_keep_the_others_from_being_rescued(held, impatient):
    for number in ("locked", "orphan"):
        a_row(number, status=Status.RUNNING, claimed_by=DEAD)

    with held(lambda: add_task(a_task("locked"))):
        assert len(rescue([DEAD], lambda code: 3, NOW, using="default").freed) == 1
    assert len(rescue([DEAD], lambda code: 3, NOW, using="default").freed) == 1


@has_row_locks
def test_a_locked_row_of_another_worker_does_not_keep_strays_from_going_back(held, impatient):
    a_row("alive", status=Status.RUNNING, claimed_by=WORKER)
    a_row("stray", status=Status.RUNNING, claimed_by=DEAD)

    with held(lambda: add_task(a_task("alive"))):
        assert give_back_strays(DEAD, [], NOW, using="default") == 1


@has_row_locks
def test_a_locked_row_does_not_keep_a_client_from_another_one(held, impatient):
    a_row("locked")
    a_row("free")

    with held(lambda: add_task(a_task("locked"))):
        assert api.pause_task(CODE, "free")
        assert cancel_task(CODE, "free") == api.CancelResult.CANCELLED
        add_task(a_task("new"))


def nobody_holds(row_id: int) -> bool:
    """Tell if nobody has locked a row; asked by a session of its own."""
    with transaction.atomic():
        free = Task._base_manager.select_for_update(skip_locked=True).filter(pk=row_id)
        return bool(list(free))


def somebody_waits_for_a_row() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM pg_stat_activity"
            " WHERE wait_event = 'transactionid' AND datname = current_database()"
        )
        return bool(cursor.fetchall()[0][0])


def check_order(call: Callable[[], Any], elsewhere: Callable[..., Any], *ids: int) -> None:
    """A call that waits for the first of two rows has not locked the second."""
    first, second = ids
    table(pk=first).update(last_error="x")  # from now on it lies behind the other one
    with transaction.atomic():
        Task._base_manager.select_for_update().get(pk=first)
        waiting = elsewhere(call)
        look = partial(elsewhere, somebody_waits_for_a_row)  # a transaction would keep the answer
        eventually(lambda: look().result(DEADLINE), "the call waits for the first")
        assert elsewhere(nobody_holds, second).result(DEADLINE)
    waiting.result(DEADLINE)


by_scan = only_on(POSTGRESQL, because="the others lock in the order of an index")


@by_scan
@pytest.mark.parametrize(
    "call",
    [
        lambda: api.cancel_tasks(biz_code=CODE),
        lambda: api.delete_tasks(CODE, "", match="all"),
        lambda: api.move_tasks(later(9), biz_code=CODE),
        lambda: api.pause(biz_code=CODE),
        lambda: api.resume(biz_code=CODE),
        lambda: api.requeue_tasks(),
        lambda: list(many.steps(TaskFilter(code=CODE), Step.CANCEL)),
        lambda: list(many.shift(TaskFilter(code=CODE), timedelta(hours=1))),
    ],
    ids=["cancel", "delete", "move", "pause", "resume", "requeue", "steps", "shift"],
)
def test_a_call_for_many_locks_rows_in_the_order_of_their_ids(call, elsewhere, request):
    status = {"resume": Status.PAUSED, "requeue": Status.FAILED}.get(request.node.callspec.id)
    rows(("2", "1"), status=status or Status.PENDING)  # in the order of keys it is behind as well
    check_order(call, elsewhere, *sorted(table().values_list("pk", flat=True)))


@by_scan
def test_a_worker_touches_the_rows_of_its_host_in_the_order_of_their_ids(elsewhere, handlers):
    here = config()
    each = {"handle": lambda handler, task: None, "each_host": True, "schedule": "every 1h"}
    for code in ("b", "a"):
        handlers(type("Each", (TaskHandler,), each | {"biz_code": code}))
        a_row(number_of(here.host), biz_code=code)
    attend = partial(recurring.attend_hosts, NOW, here)
    check_order(attend, elsewhere, *sorted(table().values_list("pk", flat=True)))
