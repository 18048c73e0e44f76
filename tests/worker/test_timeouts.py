"""The time limit of a handler that is not async: TaskTimeout in its thread, and nowhere else."""

import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.db.models import CharField, Func

from django_tasks import api
from django_tasks.exceptions import TaskTimeout
from django_tasks.handlers.base import TaskHandler
from django_tasks.host import interrupts
from django_tasks.host.clocks import ticks
from django_tasks.models import Task
from django_tasks.values.outcomes import Done, Fail, Outcome, Retry
from django_tasks.wakeup import local
from django_tasks.worker import timeouts as module
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.timeouts import NAME, Timeouts
from tests.conftest import Elsewhere
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import StillTicks, added, claimed, joined, runner

SOON = 0.05
SLEEPS = {"postgresql": "pg_sleep", "mysql": "SLEEP"}
HERE = "tests/worker/test_timeouts.py"

# Those of the project that a run may use are its thread's own.
database = pytest.mark.django_db(transaction=True)


@pytest.fixture
def timeouts() -> Iterator[Timeouts]:
    timeouts = Timeouts()
    yield timeouts
    timeouts.close()
    assert not [each for each in threading.enumerate() if each.name == NAME]


@pytest.fixture
def run(
    register: Register, timeouts: Timeouts, event_loop_thread: EventLoop, elsewhere: Elsewhere
) -> Callable[..., Outcome]:
    """The outcome of a run in a thread of its own."""

    def run(function: Callable[..., Any], **attributes: Any) -> Outcome:
        register(function, **attributes)
        membership = joined()
        added()
        (claim,) = claimed(membership.worker_id)
        one = runner(membership, event_loop_thread, timeouts)
        outcome: Outcome = elsewhere(one, claim).result(DEADLINE).outcome
        return outcome

    return run


Run = Callable[..., Outcome]


def spin(task: Any = None) -> None:
    """Go on without end, in Python."""
    while True:
        pass


def spin_and_swallow(task: Any) -> None:
    try:
        spin()
    except TaskTimeout:
        return


# The end of the run


@database
def test_a_run_ends_at_its_timeout_and_says_after_how_long_and_where(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent.parent)
    outcome = run(spin, timeout=SOON)
    assert isinstance(outcome, Retry)
    assert outcome.error.splitlines()[-1].startswith(
        "django_tasks.exceptions.TaskTimeout: handle() took longer than its timeout of 0.05 s"
        f" (at {HERE}:"
    )
    assert outcome.error.rstrip().endswith(" in spin)")
    assert "django_tasks/host" not in outcome.error
    assert "django_tasks/worker" not in outcome.error


@database
@pytest.mark.parametrize(
    "attributes",
    [
        {"max_attempts": 1},
        {"fail_on": (TaskTimeout,)},
        {"fail_on": (KeyError, TimeoutError)},
        {"retry_on": (KeyError,)},
    ],
)
def test_it_is_tried_again_as_configured(run: Run, attributes: dict[str, Any]) -> None:
    told: list[BaseException] = []
    outcome = run(spin, timeout=SOON, on_failure=lambda task, exc: told.append(exc), **attributes)
    assert isinstance(outcome, Fail)
    (error,) = told
    assert isinstance(error, TaskTimeout)


@database
@pytest.mark.parametrize("named", [TaskTimeout, TimeoutError, OSError, api.TaskException])
def test_a_run_that_is_tried_again_after_timeouts_is(run: Run, named: type[BaseException]) -> None:
    assert isinstance(run(spin, timeout=SOON, retry_on=(named,)), Retry)


@database
def test_code_that_meets_errors_of_the_system_does_not_take_it_for_one(run: Run) -> None:
    def handle(task: Any) -> None:
        with suppress(OSError):
            spin()

    assert isinstance(run(handle, timeout=SOON), Retry)


@database
def test_a_run_that_ends_in_time_does_not_hear_of_it(run: Run) -> None:
    assert run(lambda task: None, timeout=60) == Done()


@database
def test_a_handler_may_catch_it_and_end_well(run: Run) -> None:
    assert run(spin_and_swallow, timeout=SOON) == Done()


@database
def test_it_may_raise_something_else_in_its_place(run: Run) -> None:
    def handle(task: Any) -> None:
        try:
            spin()
        except TaskTimeout as error:
            raise LookupError("the partner is slow") from error

    outcome = run(handle, timeout=SOON, fail_on=(LookupError,))
    assert isinstance(outcome, Fail)
    assert "the partner is slow" in outcome.error


@database
def test_the_options_of_one_task_have_a_timeout_too(
    register: Register, timeouts: Timeouts, elsewhere: Elsewhere
) -> None:
    register(spin)
    membership = joined()
    added(options=api.TaskOptions(timeout=SOON))
    (claim,) = claimed(membership.worker_id)
    ended = elsewhere(runner(membership, None, timeouts), claim).result(DEADLINE)
    assert "its timeout of 0.05 s" in ended.outcome.error


@database
def test_a_timeout_of_the_handlers_own_is_left_as_it_is(run: Run) -> None:
    def handle(task: Any) -> None:
        raise TaskTimeout("mine")

    outcome = run(handle, timeout=60)
    assert isinstance(outcome, Retry)
    assert outcome.error.rstrip().endswith("TaskTimeout: mine")


# Transactions and connections


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Writes into the row; only then does the timeout pass, however slow the machine is."""
    still = StillTicks()
    monkeypatch.setattr(module, "ticks", still)

    def write() -> None:
        Task._base_manager.update(last_error="written")
        still.now += SOON

    return write


def interrupted_within_a_block(written: Callable[[], None], task: Any) -> None:
    """The state in which Django is when it is interrupted while it begins or ends a block."""
    written()
    transaction.atomic().__enter__()
    spin()


@database
@pytest.mark.parametrize("atomic", [False, True])
def test_whatever_state_a_connection_is_in_it_is_closed(
    run: Run, written: Callable[[], None], atomic: bool
) -> None:
    states: list[Any] = []

    def note(task: Any, exc: Any) -> None:
        states.append((connection.connection, connection.in_atomic_block))
        states.append(Task.objects.get().last_error)  # a new one works
        assert connection.get_autocommit()

    attributes = {"timeout": SOON, "atomic": atomic, "max_attempts": 1, "on_failure": note}
    assert isinstance(run(partial(interrupted_within_a_block, written), **attributes), Fail)
    after, seen = states
    assert after == (None, False)
    assert seen == ("" if atomic else "written")
    Task._base_manager.update(last_error="nobody holds a lock")


@database
def test_an_atomic_run_is_rolled_back_even_if_its_handler_has_caught_it(
    run: Run, written: Callable[[], None]
) -> None:
    def handle(task: Any) -> None:
        written()
        spin_and_swallow(task)

    outcome = run(handle, timeout=SOON, atomic=True)
    assert isinstance(outcome, Retry)
    assert "handle() took longer than its timeout" in outcome.error
    assert Task.objects.get().last_error == ""


# Its place is not taken


def awhile() -> Iterator[None]:
    """Go on for much longer than the timeout, and not for ever."""
    end = ticks() + DEADLINE
    while ticks() < end:
        yield


def wait_for_a_query(task: Any = None) -> None:
    """Read by the ORM, by a query that takes longer than the timeout."""
    seconds = Func(4 * SOON, function=SLEEPS[connection.vendor], output_field=CharField())
    list(ContentType.objects.annotate(waited=seconds)[:1])
    spin()


def ask_again_and_again(task: Any = None) -> None:
    """Ask by cursors: the generator of a query set may be what an interrupt hits in its destructor,
    which swallows it.
    """
    for _ in awhile():
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchall()


def ask_the_driver(task: Any = None) -> None:
    """Ask without Django, by a cursor that is closed by whatever comes."""
    connection.ensure_connection()
    for _ in awhile():
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchall()


QUERIES = [wait_for_a_query, ask_again_and_again, ask_the_driver]


@database
@pytest.mark.parametrize("query", QUERIES)
def test_within_a_query_it_is_what_the_run_ends_with(run: Run, query: Any) -> None:
    if query is wait_for_a_query and connection.vendor == "sqlite":
        query = ask_again_and_again
    outcome = run(query, timeout=SOON, retry_on=(TimeoutError,), max_attempts=5)
    assert isinstance(outcome, Retry)
    assert "TaskTimeout: handle() took longer than its timeout" in outcome.error.splitlines()[-1]


@database
@pytest.mark.parametrize("wait", [spin, ask_again_and_again, ask_the_driver])
def test_a_batch_that_takes_too_long_comes_again_one_by_one(
    register: Register, timeouts: Timeouts, elsewhere: Elsewhere, handlers: Any, wait: Any
) -> None:
    class Batch(TaskHandler):
        biz_code = "job"
        batch = 10
        timeout = SOON

        def handle_batch(self, tasks: list[Any]) -> None:
            if len(tasks) > 1:
                wait()

    handlers(Batch)
    membership = joined()
    for number in range(3):
        added(str(number))
    claims = tuple(claimed(membership.worker_id, limit=10))
    ends = elsewhere(runner(membership, None, timeouts).runner, claims).result(DEADLINE)
    assert [type(end.outcome).__name__ for end in ends] == ["Unsettled"] * 3
    assert [type(end.outcome.otherwise).__name__ for end in ends] == ["Again"] * 3


@database
@pytest.mark.parametrize("query", QUERIES[:2])
def test_a_handler_meets_it_as_what_it_is(run: Run, query: Any) -> None:
    if query is wait_for_a_query and connection.vendor == "sqlite":
        query = ask_again_and_again

    def handle(task: Any) -> None:
        try:
            query()
        except TaskTimeout:
            return

    assert run(handle, timeout=SOON) == Done()


@database
def test_an_error_of_the_database_that_came_of_itself_stays(run: Run) -> None:
    def handle(task: Any) -> None:
        try:
            spin()
        except TaskTimeout:
            connection.close()
        with connection.cursor() as cursor:
            cursor.execute("SELECT nothing_of_this_name")

    outcome = run(handle, timeout=SOON, retry_on=(TimeoutError,))
    assert isinstance(outcome, Fail)
    assert "nothing_of_this_name" in outcome.error


# Its handler is told


@database
def test_its_handler_is_told_once_when_the_time_has_passed(run: Run) -> None:
    told: list[Any] = []
    go_on = Event()

    def on_stuck(task: Any, seconds: float) -> None:
        told.append((str(task), seconds))
        go_on.set()

    def handle(task: Any) -> None:
        while True:  # for ever
            try:
                assert go_on.wait(DEADLINE)
                return
            except TaskTimeout:
                continue

    assert run(handle, timeout=SOON, on_stuck=on_stuck) == Done()
    ((key, seconds),) = told
    assert key == "job/1"
    assert SOON <= seconds < DEADLINE


@database
def test_so_it_is_of_an_async_handler_that_does_not_end(run: Run) -> None:
    go_on = Event()

    async def handle(task: Any) -> None:
        assert go_on.wait(DEADLINE)  # it blocks the event loop: nothing can cancel it

    assert run(handle, timeout=SOON, on_stuck=lambda task, seconds: go_on.set()) == Done()


@database
def test_where_nothing_can_be_raised_its_handler_is_told_all_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = Event()
    monkeypatch.setattr(interrupts, "are_possible", lambda: False)
    outcome = run(
        lambda task: go_on.wait(DEADLINE) and None,
        timeout=SOON,
        on_stuck=lambda task, seconds: go_on.set(),
    )
    assert outcome == Done()
    assert "job/1 took" in caplog.text
    assert "more than its timeout of 0.05 s" in caplog.text


@database
def test_a_handler_that_says_so_is_not_interrupted(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = Event()
    outcome = run(
        lambda task: go_on.wait(DEADLINE) and None,
        timeout=SOON,
        interrupt=False,
        on_stuck=lambda task, seconds: go_on.set(),
    )
    assert outcome == Done()
    assert "more than its timeout of 0.05 s" in caplog.text


# What it must not come into, or leave locked


class Contended(logging.Handler):
    """A handler of the log whose lock another thread has, until the run waits for it."""

    def __init__(self, is_waited_for: Callable[[], bool]) -> None:
        super().__init__()
        self.emitted = 0
        self._is_waited_for = is_waited_for
        self._is_taken = Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.emitted += 1

    def hold(self) -> None:
        assert self.lock is not None
        with self.lock:
            self._is_taken.set()
            eventually(self._is_waited_for, "the time of the run has passed")

    def await_taken(self) -> None:
        assert self._is_taken.wait(DEADLINE)


@database
def test_a_run_that_waited_for_a_log_handler_leaves_it_to_others(run: Run) -> None:
    told = Event()
    log = Contended(told.is_set)
    record = logging.makeLogRecord({"msg": "a line"})
    holder = threading.Thread(target=log.hold)

    def handle(task: Any) -> None:
        holder.start()
        log.await_taken()
        log.handle(record)

    outcome = run(handle, timeout=SOON, on_stuck=lambda task, seconds: told.set())
    holder.join(DEADLINE)
    assert isinstance(outcome, Retry)
    other = threading.Thread(target=log.handle, args=(record,), daemon=True)
    emitted = log.emitted
    other.start()
    other.join(DEADLINE)
    assert log.emitted == emitted + 1


@database
def test_it_comes_once_more_if_it_was_swallowed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a hook of a fork swallows it."""
    monkeypatch.setattr(module, "LOOK_SECONDS", SOON)

    def handle(task: Any) -> None:
        interrupt = interrupts._thread.interrupt
        assert interrupt is not None
        try:
            spin()
        except TaskTimeout:
            interrupt.come_again()
        spin()

    assert isinstance(run(handle, timeout=SOON), Retry)


def test_what_wakes_a_worker_is_not_interrupted() -> None:
    """A poller waits at an Event, which an interrupt might leave locked."""
    interrupt, could = interrupts.Interrupt(TaskTimeout), []

    def wake(overdue: bool) -> None:
        could.append(interrupt.fire())

    local.listen("elsewhere", wake)
    try:
        interrupt.run(lambda: None, lambda _: local.ring("elsewhere", overdue=False), None)
    finally:
        local.stop_listening("elsewhere", wake)
    assert could == [False]


def test_a_limit_that_is_kept_away_comes_afterwards(timeouts: Timeouts) -> None:
    begun, go_on = Event(), Event()

    @interrupts.uninterrupted
    def section() -> None:
        begun.set()
        assert go_on.wait(DEADLINE)

    def method(_: Any) -> None:
        section()
        spin()

    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(called(timeouts, SOON, method)))
    thread.start()
    assert begun.wait(DEADLINE)
    limits = list(timeouts._limits)
    eventually(lambda: limits[0].is_told, "its time has passed")
    assert thread.is_alive()
    go_on.set()
    thread.join(DEADLINE)
    assert isinstance(ended[0], TaskTimeout)


def a_run() -> Any:
    return SimpleNamespace(handler=TaskHandler(), using="default")


def called(timeouts: Timeouts, seconds: float, method: Callable[[Any], Any]) -> Any:
    """The answer, or the exception."""
    try:
        return timeouts.call([a_run()], seconds, "handle()", method, None)
    except (TaskTimeout, KeyError) as error:
        return error


@pytest.fixture
def hasty() -> Iterator[None]:
    """Have threads take turns as often as they can, and collect no garbage of other tests.

    Python tells of an exception that has come into somebody's destructor, and goes on.
    """
    before = sys.getswitchinterval()
    gc.collect()
    gc.disable()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
    gc.enable()


def test_it_never_comes_into_what_follows_a_run(
    timeouts: Timeouts, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of runs, in many threads, that end at the very moment."""
    monkeypatch.setattr(module, "report", lambda runs, now, context: None)
    answers: list[Any] = []
    escaped: list[BaseException] = []

    def work(seed: int, _: Any) -> int:
        end = ticks() + (seed % 40) * 1e-5  # about as long as it takes until it comes
        while ticks() < end or seed % 50 == 0:
            pass
        if seed % 7 == 0:
            raise KeyError(seed)
        return 1

    def main() -> None:
        try:
            for seed in range(400):
                seconds = (seed % 5) * 1e-5
                answers.append(called(timeouts, seconds, partial(work, seed)))
                sum(range(50))
                list(map(str, range(5)))
        except BaseException as error:
            escaped.append(error)

    threads = [threading.Thread(target=main) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert escaped == []
    assert len(answers) == 8 * 400
    assert {type(answer) for answer in answers} == {int, KeyError, TaskTimeout}
    assert not timeouts._limits
    assert timeouts._thread is not None
    assert timeouts._thread.is_alive()


# The thread


def test_without_a_timeout_there_is_no_thread_and_with_one_there_is_one(
    timeouts: Timeouts,
) -> None:
    assert timeouts._thread is None
    for _ in range(3):
        assert called(timeouts, 60, lambda _: 7) == 7
    assert len([each for each in threading.enumerate() if each.name == NAME]) == 1


def test_a_shorter_limit_comes_before_a_longer_one_that_it_was_added_after(
    timeouts: Timeouts,
) -> None:
    done = Event()
    long = threading.Thread(target=called, args=(timeouts, 60, lambda _: done.wait(DEADLINE)))
    long.start()
    eventually(lambda: timeouts._next_look < ticks() + 61, "the thread waits for the long one")
    assert isinstance(called(timeouts, SOON, spin), TaskTimeout)
    done.set()
    long.join(DEADLINE)
