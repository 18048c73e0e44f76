"""The threads that run claims, and the buffer before them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Context, DefaultContext, getcontext, localcontext
from threading import Event
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection, connections, transaction
from django.utils.timezone import activate as activate_zone
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import activate, get_language

from django_tasks.host.clocks import ticks
from django_tasks.models import Task
from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Done, GiveBack
from django_tasks.worker import executor as module
from django_tasks.worker.executor import Executor, Item
from tests.factories import a_claim_of
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import StillTicks, added


def items(count: int) -> list[Item]:
    return [(a_claim_of(number),) for number in range(count)]


def done(claimed: Claimed) -> Ended:
    return Ended(claimed, Done())


class Runs:
    """Stands in for a runner; none of its runs crashes."""

    def __init__(self, run: Callable[[Claimed], Ended] = done) -> None:
        self._run = run

    def __call__(self, item: Item, take: Any = None) -> list[Ended]:
        return [self._run(claimed) for claimed in item]

    def crashed(self, claimed: Claimed) -> Ended:
        raise AssertionError(f"The run of {claimed} has crashed")


def collected(executor: Executor, ends: list[Ended]) -> int:
    """The number of ends, with those that have come since."""
    ends.extend(executor.collect())
    return len(ends)


@contextmanager
def working(
    threads: int,
    run: Callable[[Claimed], Ended] | Runs = done,
    wake: Callable[[], Any] = lambda: None,
) -> Iterator[Executor]:
    executor = Executor(threads, run if isinstance(run, Runs) else Runs(run), wake)
    executor.start()
    try:
        yield executor
    finally:
        executor.close()
        executor.join()
        assert not any(thread.is_alive() for thread in executor._threads)


class Gate:
    """Runs wait in it until the test opens it."""

    def __init__(self) -> None:
        self.open = Event()
        self.inside: list[Claimed] = []

    def __call__(self, claimed: Claimed) -> Ended:
        self.inside.append(claimed)
        assert self.open.wait(DEADLINE)
        return done(claimed)


def test_everything_submitted_runs_once_and_is_collected_once() -> None:
    with working(4) as executor:
        executor.submit(items(200))
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) >= 200, "200 ends")
        assert sorted(end.claimed.id for end in ends) == list(range(200))
        assert executor.collect() == []
        assert executor.is_idle()


def test_a_run_that_lets_an_exception_through_is_told_of_and_ends_as_crashed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Crashing(Runs):
        def crashed(self, claimed: Claimed) -> Ended:
            return done(claimed)

    def run(claimed: Claimed) -> Ended:
        raise OSError("Invalid argument")

    with working(1, Crashing(run)) as executor:
        executor.submit(items(1))
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 1, "the end of the run")
    assert [end.claimed.id for end in ends] == [0]
    assert "The run of job/0 failed outside its handler" in caplog.text


def test_one_thread_runs_claims_in_the_order_of_their_submission() -> None:
    order: list[int] = []

    def run(claimed: Claimed) -> Ended:
        order.append(claimed.id)
        return done(claimed)

    with working(1, run) as executor:
        executor.submit(items(50))
        eventually(lambda: len(order) == 50, "50 runs")
    assert order == list(range(50))


def test_a_connection_that_complains_about_being_closed_costs_no_thread_and_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken:
        close_at = None
        connection = object()
        in_atomic_block = False
        queries_log = ()

        def close_if_unusable_or_obsolete(self) -> None:
            raise OperationalError("gone away")

    monkeypatch.setattr(module, "own_connections", lambda lease: [Broken()])
    with working(1) as executor:
        executor.submit(items(3))
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) >= 3, "three ends")


def test_every_end_wakes_the_poller_after_it_can_be_collected() -> None:
    found: list[int] = []
    with working(1, wake=lambda: found.append(len(executor.collect()))) as executor:
        executor.submit(items(3))
        eventually(lambda: len(found) == 3, "three calls")
    assert sum(found) == 3
    assert found[0] >= 1


def test_a_task_never_waits_behind_a_slow_one_while_a_thread_is_free() -> None:
    gate = Gate()
    with working(2, lambda each: gate(each) if each.id == 0 else done(each)) as executor:
        executor.submit([(a_claim_of(0),)])
        eventually(lambda: gate.inside, "the slow one runs")
        executor.submit(items(20)[1:])
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 19, "19 quick ends")
        assert [each.id for (each,), _ in executor.running()] == [0]
        assert not executor.is_idle()
        gate.open.set()


def test_what_no_thread_has_started_can_be_taken_back_and_runs_nowhere() -> None:
    gate = Gate()
    with working(2, gate) as executor:
        executor.submit(items(5))
        eventually(lambda: len(gate.inside) == 2, "two run")
        assert executor.has_waiting()
        assert [each.id for each in executor.take_back()] == [2, 3, 4]
        assert executor.take_back() == []
        assert not executor.has_waiting()
        gate.open.set()
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 2, "two ends")
    assert {each.id for each in gate.inside} == {0, 1}


def test_running_tells_what_runs_and_since_when() -> None:
    gate = Gate()
    with working(3, gate) as executor:
        before = ticks()
        executor.submit(items(2))
        eventually(lambda: len(gate.inside) == 2, "two run")
        running = executor.running()
        assert sorted(each.id for (each,), _ in running) == [0, 1]
        assert all(before <= since <= ticks() for _, since in running)
        gate.open.set()
        eventually(lambda: not executor.running(), "nothing runs")


def test_mending_leaves_threads_alone_that_live_or_are_not_started_or_are_to_end() -> None:
    idle = Executor(2, Runs(), lambda: None)
    idle.mend()
    assert [thread.ident for thread in idle._threads] == [None, None]
    with working(2) as executor:
        threads = list(executor._threads)
        executor.mend()
        assert executor._threads == threads
    executor.mend()
    assert executor._threads == threads


def test_in_place_of_a_poller_that_hangs_the_buffer_ends_as_given_back() -> None:
    gate = Gate()
    with working(1, gate) as executor:
        executor.submit(items(3))
        eventually(lambda: gate.inside, "the first one runs")
        assert [each.id for each in executor.relieve()] == [1, 2]
        assert executor.relieve() == []
        assert executor.known() == {(0, 1), (1, 1), (2, 1)}
        ends = executor.collect()
        assert [(end.claimed.id, end.outcome) for end in ends] == [(1, GiveBack()), (2, GiveBack())]
        assert executor.known() == {(0, 1)}
        gate.open.set()
        eventually(lambda: collected(executor, ends) == 3, "the end of the run")
        assert executor.is_idle()


def test_claims_that_were_found_nowhere_are_no_longer_expected() -> None:
    executor = Executor(1, Runs(), lambda: None)
    executor.submit(items(2))
    executor._buffer.clear()  # a defect loses them
    assert not executor.is_idle()
    executor.forget(2)
    assert executor.is_idle()
    assert executor.room(0) == 1


def test_closing_lets_what_was_submitted_end_first() -> None:
    ran: list[int] = []

    def run(claimed: Claimed) -> Ended:
        ran.append(claimed.id)
        return done(claimed)

    with working(1, run) as executor:
        executor.submit(items(100))
    assert len(ran) == 100


def test_joining_what_was_never_started_returns() -> None:
    executor = Executor(2, Runs(), lambda: None)
    executor.close()
    executor.join()
    assert executor.is_idle()


# How much to claim


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillTicks:
    clock = StillTicks()
    monkeypatch.setattr(module, "ticks", clock)
    return clock


def an_executor(threads: int, clock: StillTicks, seconds: float) -> Executor:
    """Without threads of its own: tests run its tasks, each for so many seconds."""

    def run(claimed: Claimed) -> Ended:
        clock.now += seconds
        return done(claimed)

    return Executor(threads, Runs(run), lambda: None)


def run_some(executor: Executor, count: int) -> None:
    executor.submit(items(count))
    executor._run_all(0)
    assert len(executor.collect()) == count


def start_one(executor: Executor, clock: StillTicks) -> None:
    """Have the next task run, and go on running."""
    executor._running[0] = module.Running(executor._buffer.popleft(), clock())


def test_what_goes_first_goes_before_all_that_waits_in_its_own_order(clock: StillTicks) -> None:
    executor = an_executor(1, clock, 0.0)
    executor.submit([(a_claim_of(1),), (a_claim_of(2),)])
    executor.submit([(a_claim_of(3),), (a_claim_of(4),)], first=True)
    executor.submit([(a_claim_of(5),)])
    executor._run_all(0)
    assert [end.claimed.id for end in executor.collect()] == [3, 4, 1, 2, 5]


def test_a_thread_that_was_woken_and_has_not_run_yet_is_woken_once(
    clock: StillTicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = an_executor(1, clock, 0.0)
    woken: list[str] = []
    monkeypatch.setattr(executor._work, "notify", lambda: woken.append("one"))
    executor._sleeping = 1
    for _ in range(3):
        executor.submit(items(1))
    assert woken == ["one"]


def test_before_anything_is_known_there_is_room_for_the_threads_only(clock: StillTicks) -> None:
    assert an_executor(4, clock, 0.0).room(500) == 4


def test_slow_tasks_get_no_buffer(clock: StillTicks) -> None:
    executor = an_executor(4, clock, 1.0)
    run_some(executor, 4)
    assert executor.room(500) == 4


def test_the_buffer_for_quick_tasks_doubles_until_it_takes_what_they_need_for_a_while(
    clock: StillTicks,
) -> None:
    executor = an_executor(4, clock, 0.001)
    rooms = []
    for _ in range(6):
        run_some(executor, 4)
        rooms.append(executor.room(500))
    assert rooms == [4 + 8, 4 + 16, 4 + 32, 4 + 50, 4 + 50, 4 + 50]
    assert executor.room(20) == 4 + 20


def test_one_slow_task_ends_the_belief_in_quick_ones(clock: StillTicks) -> None:
    executor = an_executor(4, clock, 0.001)
    for _ in range(6):
        run_some(executor, 4)
    executor.submit(items(1))
    clock.now += 0.2
    executor._run_all(0)
    executor.collect()
    assert executor.room(500) == 4


def test_a_run_that_is_still_under_way_counts_by_its_age(clock: StillTicks) -> None:
    executor = an_executor(2, clock, 0.001)
    run_some(executor, 10)
    executor.submit(items(1))
    start_one(executor, clock)
    assert executor.room(500) == 2 + 4 - 1
    clock.now += 5
    assert executor.room(500) == 1


def test_ends_that_were_not_collected_yet_show_that_tasks_are_quick(clock: StillTicks) -> None:
    executor = an_executor(2, clock, 0.001)
    run_some(executor, 10)
    executor.submit(items(101))
    last = executor._buffer.pop()
    executor._run_all(0)
    executor._buffer.append(last)
    start_one(executor, clock)
    assert executor.room(500) == 2 + 4 - 1


def test_time_with_nothing_to_do_says_nothing_about_the_pace(clock: StillTicks) -> None:
    executor = an_executor(2, clock, 0.001)
    for _ in range(6):
        run_some(executor, 10)
    clock.now += 60
    run_some(executor, 10)
    assert executor.room(500) == 2 + 50


def test_what_is_in_hand_takes_up_room(clock: StillTicks) -> None:
    executor = an_executor(4, clock, 0.001)
    executor.submit(items(3))
    assert executor.room(500) == 1
    start_one(executor, clock)
    assert executor.room(500) == 1
    executor.submit(items(3))
    assert executor.room(500) == 0


def test_a_buffer_that_no_thread_gets_to_is_stale_after_a_while(clock: StillTicks) -> None:
    executor = an_executor(1, clock, 0.001)
    executor.submit(items(2))
    start_one(executor, clock)
    clock.now += module.STALE_SECONDS - 0.01
    assert not executor.is_stale()
    clock.now += 0.02
    assert executor.is_stale()
    executor.take_back()
    assert not executor.is_stale()


def test_a_database_whose_driver_is_missing_hinders_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make(alias: str) -> Any:
        raise ImproperlyConfigured("no driver")

    monkeypatch.setattr(connections, "create_connection", make)
    monkeypatch.setitem(connections.settings, "legacy", {"ENGINE": "nowhere"})
    with working(1) as executor:
        executor.submit(items(1))
        eventually(executor.collect, "the task has run")


# What a run leaves behind


@pytest.mark.django_db(transaction=True)
def test_with_debug_the_texts_of_statements_are_kept_for_one_run(settings: Any) -> None:
    settings.DEBUG = True
    kept: list[int] = []

    def run(claimed: Claimed) -> Ended:
        kept.append(len(connection.queries_log))
        Task.objects.count()
        return done(claimed)

    with working(1, run) as executor:
        executor.submit(items(2))
        eventually(lambda: len(kept) == 2, "two runs")
    assert kept == [0, 0]


VARIABLE = ContextVar("VARIABLE", default="nothing")


def settings_of_the_run() -> tuple[Any, ...]:
    return VARIABLE.get(), get_language(), get_current_timezone_name(), getcontext().prec


def set_all() -> None:
    VARIABLE.set("something")
    activate("de")
    activate_zone("Asia/Tokyo")
    getcontext().prec = 3


def test_what_a_run_sets_for_itself_ends_with_it() -> None:
    seen: list[Any] = []

    def run(claimed: Claimed) -> Ended:
        seen.append(settings_of_the_run())
        set_all()
        return done(claimed)

    with working(1, run) as executor:
        executor.submit(items(2))
        eventually(lambda: len(seen) == 2, "two runs")
    assert seen[0] == seen[1] == settings_of_the_run()


def test_a_run_finds_what_was_set_where_its_worker_was_made() -> None:
    seen: list[str] = []

    def run(claimed: Claimed) -> Ended:
        seen.append(VARIABLE.get())
        return done(claimed)

    token = VARIABLE.set("of the worker")
    try:
        with working(1, run) as executor:
            VARIABLE.set("later")
            executor.submit(items(1))
            eventually(lambda: seen, "a run")
    finally:
        VARIABLE.reset(token)
    assert seen == ["of the worker"]


def test_each_run_has_the_decimal_terms_of_its_worker_for_itself() -> None:
    seen: list[int] = []

    def run(claimed: Claimed) -> Ended:
        seen.append(getcontext().prec)
        getcontext().prec = 3
        return done(claimed)

    with localcontext(Context(prec=11)), working(1, run) as executor:
        executor.submit(items(2))
        eventually(lambda: len(seen) == 2, "two runs")
    with localcontext(DefaultContext), working(1, run) as executor:
        executor.submit(items(2))
        eventually(lambda: len(seen) == 4, "two more")
    assert seen == [11, 11, DefaultContext.prec, DefaultContext.prec]


def leave_a_block_open() -> None:
    transaction.atomic().__enter__()


def leave_one_in_a_generator() -> None:
    """As a function does whose exception somebody keeps: its frame keeps the generator."""

    def rows() -> Iterator[int]:
        with transaction.atomic():
            yield 1
            yield 2

    cycle: list[Any] = [rows()]
    cycle.append(cycle)
    next(cycle[0])


def leave_a_broken_one() -> None:
    transaction.atomic().__enter__()
    connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "leave", [leave_a_block_open, leave_one_in_a_generator, leave_a_broken_one]
)
def test_a_transaction_that_a_run_leaves_open_is_rolled_back_and_the_next_run_has_none_of_it(
    leave: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    states: list[Any] = []

    def run(claimed: Claimed) -> Ended:
        if claimed.id == 0:
            leave()
            return done(claimed)
        states.append((connection.in_atomic_block, connection.get_autocommit()))
        Task._base_manager.update(last_error="written")
        with transaction.atomic():
            states.append(Task.objects.count())
        return done(claimed)

    with working(1, run) as executor:
        executor.submit(items(3))
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 3, "three ends")
    assert states == [(False, True), 0] * 2
    (line,) = caplog.messages
    assert line == "job/0 left a transaction open on default; it was rolled back"


@pytest.mark.django_db(transaction=True)
def test_what_a_run_has_not_committed_without_autocommit_is_rolled_back() -> None:
    states: list[Any] = []

    def run(claimed: Claimed) -> Ended:
        states.append((connection.get_autocommit(), Task.objects.count()))
        connection.set_autocommit(False)
        added(str(claimed.id))
        return done(claimed)

    with working(1, run) as executor:
        executor.submit(items(2))
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 2, "two ends")
    assert states == [(True, 0)] * 2


# Items that end in parts


class Parts(Runs):
    """Ends the first claim of an item, and does something before it ends the others."""

    def __init__(self, between: Callable[[], None]) -> None:
        super().__init__()
        self._between = between

    def __call__(self, item: Item, take: Any = None) -> list[Ended]:
        take([done(item[0])])
        self._between()
        return super().__call__(item[1:])

    def crashed(self, claimed: Claimed) -> Ended:
        return Ended(claimed, GiveBack())


def three_together() -> list[Item]:
    return [tuple(map(a_claim_of, range(3)))]


@contextmanager
def first_of_three() -> Iterator[tuple[Executor, list[Ended], Event]]:
    """An executor whose item of three has brought one end; the others wait for the event."""
    gate = Event()

    def wait() -> None:
        assert gate.wait(DEADLINE)

    with working(1, Parts(wait)) as executor:
        executor.submit(three_together())
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 1, "the first")
        yield executor, ends, gate


def test_a_part_that_has_ended_is_collected_while_the_rest_runs() -> None:
    with first_of_three() as (executor, ends, go_on):
        (running,) = executor.running()
        assert [claimed.id for claimed in running.item] == [1, 2]
        assert executor.known() == {claimed[:2] for claimed in running.item}
        assert not executor.is_idle()
        assert not executor.has_ended_all()
        go_on.set()
        eventually(lambda: collected(executor, ends) == 3, "the others")
        assert executor.is_idle()
    assert [end.claimed.id for end in ends] == [0, 1, 2]


def test_of_an_item_that_breaks_in_the_middle_the_rest_has_crashed() -> None:
    def fail() -> None:
        raise OSError("Invalid argument")

    with working(1, Parts(fail)) as executor:
        executor.submit(three_together())
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 3, "all")
        assert executor.is_idle()
    assert [type(end.outcome) for end in ends] == [Done, GiveBack, GiveBack]


def test_a_call_that_was_given_up_has_all_that_waits_behind_it() -> None:
    with first_of_three() as (executor, _, go_on):
        assert not executor.runs_only(set())
        assert executor.runs_only({a_claim_of(1)[:2]})
        go_on.set()


def test_what_is_called_again_runs_since_the_start_of_that_call() -> None:
    starts: list[float] = []

    class Again(Runs):
        def __call__(self, item: Item, take: Any = None) -> list[Ended]:
            for ends in ([], [done(item[0])]):
                starts.append(executor.running()[0].started)
                take(ends)
            starts.append(executor.running()[0].started)
            return super().__call__(item[1:])

    with working(1, Again()) as executor:
        executor.submit(three_together())
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 3, "three ends")
    assert starts == sorted(set(starts))
    assert len(starts) == 3


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_a_call_leaves_open_is_none_of_the_next_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    states: list[bool] = []

    class Leaving(Runs):
        def __call__(self, item: Item, take: Any = None) -> list[Ended]:
            leave_a_block_open()
            take([])
            states.append(connection.in_atomic_block)
            Task._base_manager.update(last_error="written")
            return super().__call__(item)

    with working(1, Leaving()) as executor:
        executor.submit(three_together())
        ends: list[Ended] = []
        eventually(lambda: collected(executor, ends) == 3, "three ends")
    assert states == [False]
    (line,) = caplog.messages
    assert line == "job/0 left a transaction open on default; it was rolled back"
