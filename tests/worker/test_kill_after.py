"""A run that does not end within ``kill_after``: its end is written, and it costs its process."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks import api, logs, signals
from django_tasks.exceptions import HandlerError, TaskTimeout
from django_tasks.handlers import registry
from django_tasks.handlers.base import TaskHandler
from django_tasks.models import TaskRun
from django_tasks.store.finish import Ended
from django_tasks.values.outcomes import Done, Retry, settled
from django_tasks.values.status import Status
from django_tasks.worker.given_up import GivenUp
from django_tasks.worker.timeouts import KILL_NAME, Timeouts
from django_tasks.worker.worker import LAST_ACT_SECONDS, Worker
from tests.factories import NOW, a_claim_of
from tests.vendor import SERVERS, only_on
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import added, config, handler, heard, row, stored

SOON = 0.05
HERE = Path(__file__).name

database = pytest.mark.django_db(transaction=True)


@pytest.fixture
def gate() -> Iterator[Event]:
    """Stuck runs wait at it; after the test they end."""
    gate = Event()
    yield gate
    gate.set()


@pytest.fixture
def start(gate: Event, transactional_db: None) -> Iterator[Callable[..., Worker]]:
    """Start workers that may cost their process."""
    workers: list[Worker] = []

    def start(kill: Callable[[], None] | None = lambda: None, **wishes: Any) -> Worker:
        values = {"poll_interval": 0.05, "threads": 3} | wishes
        worker = Worker(config(**values), kill=kill)
        workers.append(worker)
        worker.start()
        return worker

    yield start
    gate.set()
    for worker in workers:
        worker.stop()
        assert worker.join(DEADLINE)
        worker._executor.join()
    eventually(lambda: not _killing(), "nobody is killed any more")


def _killing() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == KILL_NAME]


Start = Callable[..., Worker]


# What is said on a handler


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"kill_after": 0}, "kill_after must be more than 0, not 0"),
        ({"kill_after": timedelta(0)}, "kill_after must be more than 0"),
        ({"kill_after": -1}, "-1"),
        ({"kill_after": "10"}, "'10'"),
        ({"kill_after": 10, "timeout": 10}, "must be longer than the timeout of 10 s, not 10"),
    ],
)
def test_one_that_means_nothing_is_refused(
    handlers: Any, attributes: dict[str, Any], words: str
) -> None:
    with pytest.raises(HandlerError, match=words):
        handlers(handler(lambda task: None, **attributes))


def test_it_may_be_said_without_a_timeout_and_by_the_decorator(handlers: Any) -> None:
    handlers(api.task_handler("one", kill_after=timedelta(seconds=5))(lambda task: None))
    handlers(handler(lambda task: None, biz_code="two", kill_after=5, timeout=4))
    handlers(handler(lambda task: None, biz_code="three", timeout=4))
    assert registry.killing() == ["one", "two"]
    assert registry.killing(("two", "three")) == ["two"]


# The time


class Killed:
    """Notes the calls that are given up."""

    def __init__(self) -> None:
        self.has_come = Event()
        self.errors: list[TaskTimeout] = []

    def __call__(self, runs: Any, error: TaskTimeout) -> None:
        self.errors.append(error)
        self.has_come.set()


@pytest.fixture
def killed() -> Killed:
    return Killed()


@pytest.fixture
def timeouts(killed: Killed) -> Iterator[Timeouts]:
    timeouts = Timeouts()
    timeouts.on_kill(killed)
    yield timeouts
    timeouts.close()
    timeouts.await_told()


def a_run(**attributes: Any) -> Any:
    one = handler(lambda task: None, **attributes)
    return SimpleNamespace(handler=one, using="default", started=SimpleNamespace(monotonic=0.0))


def test_it_has_passed_only_once_and_says_after_how_long_and_where(
    timeouts: Timeouts, killed: Killed
) -> None:
    def wait() -> bool:
        return killed.has_come.wait(DEADLINE)

    assert timeouts.during([a_run(kill_after=SOON)], None, "handle()", wait)
    (error,) = killed.errors
    words = "handle() had not ended 0.05 s after its start, its kill_after, and was killed with its"
    assert str(error).startswith(words)
    assert f"{HERE}:" in str(error)
    assert str(error).endswith(" in wait)")


def test_a_call_that_has_ended_is_left_alone(timeouts: Timeouts, killed: Killed) -> None:
    assert timeouts.during([a_run(kill_after=SOON)], None, "handle()", lambda: 7) == 7
    other = a_run(kill_after=2 * SOON)
    assert timeouts.during([other], None, "handle()", lambda: killed.has_come.wait(DEADLINE))
    assert "0.1 s" in str(killed.errors[0])
    assert len(killed.errors) == 1


def test_a_run_that_has_caught_its_timeout_is_killed_all_the_same(
    timeouts: Timeouts, killed: Killed
) -> None:
    caught: list[TaskTimeout] = []

    def handle(_: Any) -> bool:
        while not killed.has_come.is_set():
            try:
                killed.has_come.wait(SOON)
            except TaskTimeout as error:
                caught.append(error)
        return True

    run = a_run(timeout=SOON, kill_after=4 * SOON)
    assert timeouts.call([run], SOON, "handle()", handle, None)
    assert len(caught) == 1


# A worker


def stuck(gate: Event, begun: Event, task: Any) -> None:
    begun.set()
    assert gate.wait(2 * DEADLINE)


@database
def test_its_end_is_written_and_the_worker_ends_without_it(
    register: Register, start: Start, gate: Event, caplog: pytest.LogCaptureFixture
) -> None:
    begun, told, woken = Event(), Event(), Event()
    failures: list[Any] = []
    attributes: dict[str, Any] = {"kill_after": SOON, "max_attempts": 1, "history": "all"}

    def on_failure(task: Any, exc: BaseException) -> None:
        failures.append((str(task), exc))
        told.set()

    register(partial(stuck, gate, begun), on_failure=on_failure, **attributes)
    added()
    with heard(signals.task_failed) as messages:
        worker = start(woken.set)
        assert worker.join(DEADLINE)
    assert worker.is_condemned
    assert not worker.failed
    assert woken.is_set()
    assert told.is_set()
    ((key, error),) = failures
    assert (key, type(error)) == ("job/1", TaskTimeout)
    assert len(messages) == 1
    one = stored()
    assert (one.status, one.attempts, one.claimed_by) == (Status.FAILED, 1, None)
    assert "killed with its process" in one.last_error
    assert " in stuck)" in one.last_error
    (line,) = TaskRun.objects.all()
    assert (line.outcome, line.attempt) == ("failed", 1)
    assert "job/1 costs this process" in caplog.text
    gate.set()
    worker._executor.join()
    assert stored().version == one.version


@database
def test_a_log_handler_that_hangs_keeps_nobody_from_being_told(
    register: Register, start: Start, gate: Event
) -> None:
    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if vars(record)["event"] == "task_killed":
                assert gate.wait(2 * DEADLINE)

    told, hanging = Event(), Hanging()
    register(
        partial(stuck, gate, Event()),
        kill_after=SOON,
        max_attempts=1,
        on_failure=lambda task, exc: told.set(),
    )
    added()
    logs.logger.addHandler(hanging)
    try:
        start()
        assert told.wait(DEADLINE)
    finally:
        gate.set()
        logs.logger.removeHandler(hanging)


@database
def test_a_hook_that_does_not_end_either_holds_up_no_end(
    register: Register, start: Start, gate: Event
) -> None:
    """The process does not wait for it longer than for a run."""
    hangs = Event()

    def on_failure(task: Any, exc: BaseException) -> None:
        stuck(gate, hangs, task)

    register(partial(stuck, gate, Event()), kill_after=SOON, max_attempts=1, on_failure=on_failure)
    added()
    worker = start()
    assert hangs.wait(DEADLINE)
    assert stored().status == Status.RUNNING
    worker.abandon()
    assert stored().status == Status.FAILED
    assert not worker.has_signed_off()


@database
def test_a_run_beside_it_may_end_and_what_has_not_started_is_given_back(
    register: Register, start: Start, gate: Event
) -> None:
    begun, neighbour, go_on = Event(), Event(), Event()
    register(partial(stuck, gate, begun), kill_after=0.3, max_attempts=1)

    def wait(task: Any) -> None:
        neighbour.set()
        assert go_on.wait(DEADLINE)

    register(wait, biz_code="beside")
    register(lambda task: None, biz_code="later")
    added()
    added(biz_code="beside")
    worker = start(threads=2)
    assert neighbour.wait(DEADLINE)
    eventually(lambda: worker.is_condemned, "it is given up")
    added(biz_code="later")
    eventually(lambda: worker.running() == ["beside/1"], "nothing waits for it any more")
    assert stored().status == Status.RUNNING  # so nobody starts it beside the one that goes on
    assert worker.is_alive()
    go_on.set()
    assert worker.join(DEADLINE)
    assert stored().status == Status.FAILED
    assert row(biz_code="beside") is None
    later = stored(biz_code="later")
    assert (later.status, later.attempts, later.rescues) == (Status.PENDING, 0, 0)


@contextmanager
def beside(
    register: Register, start: Start, gate: Event, numbers: Iterable[str] = ("1",)
) -> Iterator[None]:
    """Have the runs of these given up, and end by themselves while another one still goes on.

    Within it the ends that were told are written. Nothing else is told of them, to the end.
    """
    others = Event()
    register(lambda task: others.wait(DEADLINE) and None, biz_code="beside")
    for number in numbers:
        added(number)
    added(biz_code="beside")
    with heard(signals.task_lost) as lost, heard(signals.task_succeeded) as succeeded:
        worker = start()
        eventually(lambda: worker.is_condemned, "they are given up")
        gate.set()
        eventually(lambda: {stored(n).attempts for n in numbers} == {1}, "each is charged")
        yield
        others.set()
        assert worker.join(DEADLINE)
    assert lost == []
    assert [str(each["task"]) for each in succeeded] == ["beside/1"]


@database
def test_a_run_that_ends_in_the_meantime_has_the_end_that_was_told(
    register: Register, start: Start, gate: Event
) -> None:
    register(partial(stuck, gate, Event()), kill_after=SOON, backoff=3600)
    with beside(register, start, gate):
        after = stored()
        assert (after.status, after.attempts) == (Status.PENDING, 1)
    assert stored().version == after.version


@database
@pytest.mark.parametrize("schedule", [None, "every 1s"])
def test_it_is_not_tried_again_before_its_process_has_ended(
    register: Register, start: Start, gate: Event, schedule: str | None
) -> None:
    attempts = 2 if schedule is None else 1
    register(partial(stuck, gate, Event()), kill_after=SOON, backoff=0, max_attempts=attempts)
    added(schedule=schedule)
    assert start().join(DEADLINE)
    after = stored()
    assert after.status == Status.PENDING
    assert after.when - after.update_time > timedelta(seconds=LAST_ACT_SECONDS - 1)
    assert after.attempts == attempts - 1


@database
def test_nor_where_a_client_has_moved_it_meanwhile(
    register: Register, start: Start, gate: Event
) -> None:
    said: list[datetime] = []

    def move(task: Any, exc: Any) -> None:
        assert api.reschedule_task("job", "1", timedelta(0))
        said.append(stored().when)

    register(partial(stuck, gate, Event()), kill_after=SOON, max_attempts=1, on_failure=move)
    added()
    assert start().join(DEADLINE)
    after = stored()
    assert (after.status, after.claimed_by) == (Status.PENDING, None)
    assert after.when - after.update_time > timedelta(seconds=LAST_ACT_SECONDS - 1)
    assert [after.scheduled_time] == said


def test_an_end_of_its_own_does_not_come_in_the_way_of_one_that_another_thread_writes() -> None:
    """A thread has taken the end that was told; then the run ends by itself."""
    given_up, claim = GivenUp(), a_claim_of()
    told = Ended(claim, Retry(NOW, "killed"))
    given_up.add([told])
    (taken,) = given_up.take(NOW)
    (own,) = given_up.as_told([Ended(claim, Done())])
    assert taken == told._replace(not_before=NOW)
    assert own.outcome == settled(told.outcome)


class Slow:
    """A backoff that takes its time, as one that looks into a table does."""

    def __init__(self) -> None:
        self.asked, self.go_on = Event(), Event()

    def delay(self, attempt: int) -> float:
        self.asked.set()
        assert self.go_on.wait(DEADLINE)
        return 3600.0


@database
@pytest.mark.parametrize("atomic", [False, True])
def test_a_run_that_ends_while_it_is_just_being_given_up_has_the_end_that_is_told(
    register: Register, start: Start, gate: Event, atomic: bool
) -> None:
    slow = Slow()
    register(partial(stuck, gate, Event()), kill_after=SOON, backoff=slow, atomic=atomic)
    added()
    with heard(signals.task_retried) as told, heard(signals.task_lost) as lost:
        worker = start()
        assert slow.asked.wait(DEADLINE)
        gate.set()
        eventually(worker._executor.is_idle, "its own end is collected")
        slow.go_on.set()
        assert worker.join(DEADLINE)
    assert (len(told), lost) == (1, [])
    after = stored()
    assert (after.status, after.attempts, after.claimed_by) == (Status.PENDING, 1, None)


@database
def test_a_policy_that_waits_for_the_stuck_run_keeps_no_process_from_its_end(
    register: Register, start: Start, gate: Event
) -> None:
    slow = Slow()
    register(partial(stuck, gate, Event()), kill_after=SOON, backoff=slow)
    added()
    worker = start()
    assert slow.asked.wait(DEADLINE)
    eventually(lambda: worker.is_condemned, "the process is to end")
    assert worker.running() == []  # nobody waits for it any more
    assert stored().status == Status.RUNNING
    slow.go_on.set()
    assert worker.join(DEADLINE)


@database
def test_where_no_end_can_be_told_a_run_has_the_end_of_its_own(
    register: Register, start: Start, gate: Event
) -> None:
    asked, go_on = Event(), Event()

    def refuse(handler: TaskHandler) -> Any:
        if threading.current_thread().name != KILL_NAME:
            return (Exception,)
        asked.set()
        assert go_on.wait(DEADLINE)
        raise SystemExit("no such setting any more")

    register(partial(stuck, gate, Event()), kill_after=SOON, retry_on=property(refuse))
    added()
    worker = start()
    assert asked.wait(DEADLINE)
    gate.set()
    eventually(worker._executor.is_idle, "its own end is collected")
    go_on.set()
    assert worker.join(DEADLINE)
    assert row() is None


@database
def test_the_rest_of_a_batch_goes_back_where_its_call_ends_after_the_poller(
    start: Start, handlers: Any, gate: Event
) -> None:
    told, go_on = Event(), Event()

    class Batch(TaskHandler):
        biz_code = "job"
        batch = 10
        kill_after = SOON
        max_attempts = 1

        def handle_batch(self, tasks: list[Any]) -> None:
            if len(tasks) > 1:
                raise ValueError("not together")
            stuck(gate, Event(), tasks)

        def on_failure(self, task: Any, exc: BaseException) -> None:
            told.set()
            assert go_on.wait(DEADLINE)

    handlers(Batch)
    added("1")
    added("2")
    worker = start()
    assert told.wait(DEADLINE)
    eventually(lambda: worker._poller.finished, "the poller is done")
    gate.set()
    eventually(lambda: not worker._executor.running(), "the call has ended")
    go_on.set()
    assert worker.join(DEADLINE)
    assert stored("1").status == Status.FAILED
    rest = stored("2")
    assert (rest.status, rest.claimed_by, rest.attempts) == (Status.PENDING, None, 0)


@database
def test_each_task_of_a_batch_is_charged(start: Start, handlers: Any, gate: Event) -> None:
    class Batch(TaskHandler):
        biz_code = "job"
        batch = 10
        kill_after = SOON
        backoff = 3600

        def handle_batch(self, tasks: list[Any]) -> None:
            stuck(gate, Event(), tasks)

    handlers(Batch)
    for number in range(3):
        added(str(number))
    assert start().join(DEADLINE)
    for number in range(3):
        one = stored(str(number))
        assert (one.status, one.attempts) == (Status.PENDING, 1)
        assert "handle_batch() had not ended" in one.last_error


@database
def test_a_batch_that_ends_in_the_meantime_is_not_called_again_in_halves(
    register: Register, start: Start, handlers: Any, gate: Event
) -> None:
    calls: list[int] = []

    class Batch(TaskHandler):
        biz_code = "job"
        batch = 10
        kill_after = SOON
        backoff = 3600

        def handle_batch(self, tasks: list[Any]) -> None:
            calls.append(len(tasks))
            stuck(gate, Event(), tasks)
            raise ValueError("these")

    handlers(Batch)
    with heard(signals.task_retried) as retried, beside(register, start, gate, "0123"):
        pass
    assert calls == [4]
    assert len(retried) == 4


@database
def test_what_waits_behind_a_half_that_is_stuck_holds_up_no_end(
    start: Start, handlers: Any, gate: Event
) -> None:
    class Batch(TaskHandler):
        biz_code = "job"
        batch = 10
        kill_after = SOON
        backoff = 3600

        def handle_batch(self, tasks: list[Any]) -> None:
            if len(tasks) == 4:
                raise ValueError("these")
            stuck(gate, Event(), tasks)

    handlers(Batch)
    for number in range(4):
        added(str(number))
    worker = start()
    assert worker.join(DEADLINE)
    facts = [(row.status, row.attempts, row.claimed_by) for row in map(stored, "0123")]
    assert facts == [(Status.PENDING, 1, None)] * 2 + [(Status.PENDING, 0, None)] * 2


@database
@only_on(*SERVERS, because="a transaction of SQLite's keeps all others from writing")
def test_an_atomic_run_that_ends_in_the_meantime_is_rolled_back(
    register: Register, start: Start, gate: Event
) -> None:
    def handle(task: Any) -> None:
        added(biz_code="effect")
        stuck(gate, Event(), task)

    register(handle, kill_after=SOON, atomic=True, backoff=3600)
    with beside(register, start, gate):
        assert row(biz_code="effect") is None
    assert row(biz_code="effect") is None


@database
def test_an_async_run_that_blocks_the_event_loop_is_killed_and_says_where(
    register: Register, start: Start, gate: Event
) -> None:
    async def handle(task: Any) -> None:
        stuck(gate, Event(), task)

    register(handle, timeout=SOON, kill_after=2 * SOON, max_attempts=1)
    added()
    worker = start()
    assert worker.join(DEADLINE)
    assert "killed with its process" in stored().last_error
    assert f"{HERE}:" in stored().last_error
    gate.set()
    worker._executor.join()
    worker._loop.close()


@database
@only_on(*SERVERS, because="a transaction of SQLite's keeps all others from writing")
def test_an_atomic_run_is_charged_and_its_own_end_is_rolled_back(
    register: Register, start: Start, gate: Event
) -> None:
    register(partial(stuck, gate, Event()), kill_after=SOON, atomic=True, backoff=3600)
    added()
    worker = start()
    assert worker.join(DEADLINE)
    after = stored()
    assert (after.status, after.attempts) == (Status.PENDING, 1)
    gate.set()
    worker._executor.join()
    assert stored().version == after.version


@database
def test_where_the_process_must_not_end_nothing_is_given_up(
    register: Register, start: Start, gate: Event, embedded_workers: None
) -> None:
    stuck_for = Event()
    attributes: dict[str, Any] = {"timeout": SOON, "kill_after": 2 * SOON, "interrupt": False}
    register(
        partial(stuck, gate, Event()),
        on_stuck=lambda task, seconds: stuck_for.set(),
        **attributes,
    )
    added()
    worker = start(None)
    assert stuck_for.wait(DEADLINE)
    assert worker.is_wanted()
    gate.set()
    eventually(lambda: row() is None, "it has ended")
    assert not worker.is_condemned


@database
def test_start_says_that_it_kills_nothing(
    register: Register, caplog: pytest.LogCaptureFixture, embedded_workers: None
) -> None:
    register(lambda task: None, kill_after=1)
    with caplog.at_level(logging.WARNING):
        assert api.start(threads=1)
    assert "The kill_after of job has no effect here" in caplog.text
