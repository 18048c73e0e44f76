"""``start()`` and ``shutdown()``: workers inside the current process."""

import asyncio
import atexit
import gc
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DEFAULT_DB_ALIAS

from django_tasks import api, signals
from django_tasks.client.adding import add_tasks
from django_tasks.client.control import cancel_task
from django_tasks.models import Task, WorkerRow
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.status import Status
from django_tasks.wakeup import local
from django_tasks.worker import embedded
from django_tasks.worker.worker import Worker
from tests.vendor import SERVERS, only_on
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import CODE, added, ago, ahead, heard, row, stored

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("embedded_workers"),
]

QUICK: dict[str, Any] = {"poll_interval": 0.05, "threads": 4}


class Gate:
    """A handler that waits until the test lets it go."""

    def __init__(self) -> None:
        self.entered = Event()
        self.open = Event()
        self.runs = 0

    def __call__(self, task: Any) -> None:
        self.runs += 1
        self.entered.set()
        assert self.open.wait(DEADLINE)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def nothing_is_left() -> None:
    """Wait for the end of each thread of ours; one that another test has left may need a moment."""

    def are_ours() -> bool:
        return any(each.name.startswith("django_tasks") for each in threading.enumerate())

    eventually(lambda: not are_ours(), "no thread of a worker is left")


def test_a_started_worker_runs_due_tasks_and_leaves_nothing_behind(register: Register) -> None:
    runs: list[str] = []
    register(lambda task: runs.append(task.biz_num))
    add_tasks([Task(biz_code=CODE, biz_num=str(number), when=ago()) for number in range(50)])
    api.start(**QUICK)
    eventually(lambda: not Task.objects.exists(), "all rows are gone")
    assert api.shutdown()
    assert sorted(runs, key=int) == [str(number) for number in range(50)]
    assert not WorkerRow.objects.exists()
    nothing_is_left()
    assert not local._listeners.get(DEFAULT_DB_ALIAS)


def test_a_handler_that_is_registered_while_the_worker_runs_runs_by_itself_too(
    register: Register,
) -> None:
    ran = Event()
    register(lambda task: None, "first", schedule="every 1h")
    api.start(**QUICK)
    eventually(lambda: row(SCHEDULE_NUM, "first"), "the worker has made the rows that it knows of")
    register(lambda task: ran.set(), schedule=timedelta(seconds=0.1))
    assert ran.wait(DEADLINE)


def test_a_task_added_in_the_same_process_starts_at_once(register: Register) -> None:
    """Not at the next poll, which is ten minutes away."""
    ran = Event()
    register(lambda task: ran.set())
    api.start(poll_interval=600, lease=3000)
    eventually(WorkerRow.objects.exists, "the worker has joined")
    added()
    assert ran.wait(DEADLINE)


def test_a_task_due_soon_does_not_wait_for_the_next_poll(register: Register) -> None:
    late: list[float] = []
    register(lambda task: late.append(task.lateness))
    added(when=ahead(0.5))
    api.start(poll_interval=600, lease=3000)
    eventually(lambda: late, "it ran")
    assert 0 <= late[0] < 5


def test_start_and_running_say_what_there_is(register: Register) -> None:
    register(lambda task: None)
    assert api.running() == []
    assert api.start(**QUICK)
    assert not api.start(**QUICK)
    assert api.running() == [DEFAULT_DB_ALIAS]
    assert api.shutdown()
    assert api.running() == []
    assert api.shutdown()


def test_starting_twice_is_starting_once(register: Register) -> None:
    register(lambda task: None)
    api.start(**QUICK)
    api.start(**QUICK)
    eventually(WorkerRow.objects.exists, "the worker has joined")
    assert WorkerRow.objects.count() == 1
    assert api.shutdown()


def test_stopping_before_starting_and_twice_is_harmless(register: Register) -> None:
    assert api.shutdown()
    register(lambda task: None)
    api.start(**QUICK)
    assert api.shutdown()
    assert api.shutdown()
    assert api.shutdown(wait=False)
    assert api.shutdown(timeout=0)


def test_it_starts_again_after_it_was_stopped(register: Register) -> None:
    register(lambda task: None)
    for number in range(3):
        added(str(number))
        api.start(**QUICK)
        eventually(lambda: not Task.objects.exists(), "the row is gone")
        assert api.shutdown()


def test_starting_and_stopping_again_and_again_leaves_no_worker_and_no_callback(
    register: Register,
) -> None:
    register(lambda task: None)
    embedded._stop_at_exit()
    callbacks = atexit._ncallbacks()
    for _ in range(3):
        api.start(**QUICK)
        eventually(WorkerRow.objects.exists, "the worker has joined")
        assert api.shutdown()
    gc.collect()
    assert atexit._ncallbacks() == callbacks
    assert [each for each in gc.get_objects() if isinstance(each, Worker)] == []


def test_what_runs_at_the_stop_ends_and_what_has_not_started_is_given_back(
    register: Register, gate: Gate
) -> None:
    register(gate)
    added("runs")
    api.start(**QUICK | {"threads": 1})
    assert gate.entered.wait(DEADLINE)
    added("waits")
    assert not api.shutdown(timeout=0.2)
    assert stored("runs").status == Status.RUNNING
    assert WorkerRow.objects.count() == 1
    gate.open.set()
    assert api.shutdown()
    assert row("runs") is None
    assert (stored("waits").status, stored("waits").claimed_by) == (Status.PENDING, None)
    assert gate.runs == 1
    assert not WorkerRow.objects.exists()


def test_a_timeout_bounds_the_wait(register: Register, gate: Gate) -> None:
    register(gate)
    added()
    api.start(**QUICK)
    assert gate.entered.wait(DEADLINE)
    begin = monotonic()
    assert not api.shutdown(timeout=0.3)
    assert 0.3 <= monotonic() - begin < 5
    assert not api.shutdown(wait=False)


def in_thread(function: Callable[[], Any]) -> Event:
    done = Event()

    def call() -> None:
        function()
        done.set()

    Thread(target=call, daemon=True).start()
    return done


@pytest.mark.parametrize("starts_threads", [True, False])
def test_what_still_runs_at_the_deadline_of_an_exit_is_abandoned_and_not_rescued(
    register: Register, gate: Gate, monkeypatch: pytest.MonkeyPatch, starts_threads: bool
) -> None:
    """From Python 3.12 on no thread can be started any more when a process exits."""
    start = Thread.start
    names: list[str] = []

    def refuse(thread: Thread) -> None:
        names.append(thread.name)
        if thread.name == "django_tasks-abandon":
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    register(gate)
    added(rescues=1)
    api.start(**QUICK, shutdown_timeout=0.1)
    assert gate.entered.wait(DEADLINE)
    if not starts_threads:
        monkeypatch.setattr(Thread, "start", refuse)
    assert in_thread(embedded._stop_in_time).wait(DEADLINE)
    assert ("django_tasks-abandon" in names) is not starts_threads
    # The rescue that will come counts it up to one again.
    assert (stored().status, stored().rescues) == (Status.RUNNING, 0)


def test_a_stop_that_waits_does_not_hold_up_another_one_with_a_timeout(
    register: Register, gate: Gate
) -> None:
    """A signal handler's shutdown(timeout=…) must come back while another thread waits."""
    register(gate)
    added()
    api.start(**QUICK)
    assert gate.entered.wait(DEADLINE)
    patient = in_thread(api.shutdown)
    eventually(lambda: embedded._workers[-1]._stopping.is_set(), "it is being stopped")
    hasty = in_thread(lambda: api.shutdown(timeout=0.1))
    came_back = hasty.wait(5)
    gate.open.set()
    assert patient.wait(DEADLINE)
    assert hasty.wait(DEADLINE)
    assert came_back


def test_a_start_during_a_stop_is_not_forgotten(register: Register, gate: Gate) -> None:
    """``start`` promises a worker: one that is about to end is none."""
    ran = Event()
    register(gate)
    register(lambda task: ran.set(), "other")
    added()
    api.start(**QUICK)
    assert gate.entered.wait(DEADLINE)
    assert not api.shutdown(wait=False)
    api.start(**QUICK)
    gate.open.set()
    added("2", "other")
    assert ran.wait(10)


def test_a_stop_also_waits_for_a_worker_that_was_stopping_when_another_was_started(
    register: Register, gate: Gate
) -> None:
    register(gate)
    added()
    api.start(**QUICK)
    assert gate.entered.wait(DEADLINE)
    assert not api.shutdown(wait=False)
    api.start(**QUICK)
    in_time = api.shutdown(timeout=2)
    gate.open.set()
    nothing_is_left()
    assert not in_time, "it said that all had ended while a task still ran"


def test_a_handler_may_ask_for_the_stop(register: Register) -> None:
    done = Event()

    def handle(task: Any) -> None:
        api.shutdown(wait=False)
        done.set()

    register(handle)
    added()
    api.start(**QUICK)
    assert done.wait(DEADLINE)
    eventually(lambda: row() is None, "its end is written")


def test_unknown_wishes_and_databases_are_refused() -> None:
    with pytest.raises(TypeError):
        api.start(thread=3)
    with pytest.raises(api.UnknownDatabase):
        api.start(using="nowhere")
    nothing_is_left()


def test_start_and_stop_are_told(register: Register) -> None:
    register(lambda task: None)
    with heard(signals.worker_started) as started, heard(signals.worker_stopped) as stopped:
        api.start(**QUICK)
        # Stopped before its poller has seen that it joined, it tells neither.
        eventually(lambda: started, "its start is told")
        found = WorkerRow.objects.get()
        assert api.shutdown()
    facts = {"sender": None, "worker_id": found.pk, "name": found.name, "using": "default"}
    assert (started, stopped) == ([facts], [facts])


@pytest.mark.parametrize("signal", ["worker_started", "worker_stopped", "task_added"])
def test_a_receiver_that_raises_harms_no_worker(register: Register, signal: str) -> None:
    def receive(**_: Any) -> None:
        raise RuntimeError("receiver")

    register(lambda task: None)
    getattr(signals, signal).connect(receive)
    try:
        api.start(**QUICK)
        added()
        eventually(lambda: row() is None, "it ran")
        assert api.shutdown()
    finally:
        getattr(signals, signal).disconnect(receive)
    assert not WorkerRow.objects.exists()


# All kinds of handlers at work at once


def test_all_kinds_of_ends_come_out_as_the_protocol_says(register: Register) -> None:
    def flaky(task: Any) -> None:
        if task.attempt < 3:
            raise ValueError(f"boom {task.attempt}")

    def paging(task: Any) -> timedelta | None:
        task.biz_ext = {"page": task.biz_ext["page"] + 1}
        return timedelta(0) if task.biz_ext["page"] < 5 else None

    async def waiting(task: Any) -> None:
        await asyncio.sleep(0.01)

    async def hanging(task: Any) -> None:
        await asyncio.Event().wait()

    def effect(task: Any) -> None:
        Group.objects.create(name=task.biz_num)

    def boom(task: Any) -> None:
        raise SystemExit("never \0 works")

    register(lambda task: None, "plain")
    register(flaky, "flaky", backoff=[0.01])
    register(paging, "paging")
    register(waiting, "async")
    register(hanging, "hanging", timeout=0.05, max_attempts=1)
    register(effect, "effect", atomic=True)
    register(boom, "boom", max_attempts=2, backoff=0.01)
    codes = ["plain", "flaky", "paging", "async", "hanging", "effect", "boom"]
    add_tasks(
        Task(biz_code=code, biz_num=f"{code}-{number}", when=ago(), biz_ext={"page": 1})
        for code in codes
        for number in range(10)
    )
    api.start(**QUICK)
    eventually(
        lambda: Task.objects.exclude(status=Status.FAILED).count() == 0, "only FAILED rows are left"
    )
    assert api.shutdown()
    assert Group.objects.filter(name__startswith="effect-").count() == 10
    left = Task.objects.order_by("biz_code").values_list("biz_code", "attempts").distinct()
    assert list(left) == [("boom", 2), ("hanging", 1)]
    assert "never \\0 works" in Task.objects.filter(biz_code="boom")[0].last_error
    assert "TimeoutError" in Task.objects.filter(biz_code="hanging")[0].last_error


@only_on(*SERVERS, because="during an atomic run nobody else can write there, nor beat")
def test_an_atomic_task_that_comes_back_at_once_never_runs_twice_at_a_time(
    register: Register,
) -> None:
    """Its second run lasts for more heartbeats than it takes to look for strays."""
    inside: list[int] = []
    overlaps: list[list[int]] = []
    second, let_go = Event(), Event()

    def handle(task: Any) -> timedelta | None:
        inside.append(task.version)
        if len(inside) > 1:
            overlaps.append(list(inside))
        try:
            if not task.biz_ext:
                task.biz_ext = 1
                return timedelta(0)
            second.set()
            assert let_go.wait(DEADLINE)
            return None
        finally:
            inside.remove(task.version)

    def slow(**_: Any) -> None:
        # The first run has committed its next time, and its end reaches the poller late.
        assert second.wait(DEADLINE)

    register(handle, atomic=True)
    signals.task_rescheduled.connect(slow)
    try:
        api.start(**QUICK | {"lease": 1})
        added()
        assert second.wait(DEADLINE)
        claims = [stored().version]
        worker = WorkerRow.objects.get()
        eventually(
            lambda: (WorkerRow.objects.get().heartbeat - worker.heartbeat) > timedelta(seconds=1.5),
            "several heartbeats",
        )
        claims.append(stored().version)
        let_go.set()
        eventually(lambda: row() is None, "it is done")
    finally:
        let_go.set()
        signals.task_rescheduled.disconnect(slow)
    assert overlaps == []
    assert claims[0] == claims[1]


def test_a_cancel_during_the_run_is_seen_and_the_task_goes(register: Register) -> None:
    entered, seen = Event(), Event()

    def handle(task: Any) -> timedelta:
        entered.set()
        eventually(lambda: task.cancel_requested, "the cancel is seen")
        seen.set()
        return timedelta(0)

    register(handle)
    added()
    api.start(**QUICK)
    assert entered.wait(DEADLINE)
    assert cancel_task(CODE, "1") == "cancelling"
    assert seen.wait(DEADLINE)
    eventually(lambda: row() is None, "the row is gone")


# Health


def test_the_health_of_the_workers_here(gate: Gate, register: Register) -> None:
    register(gate)
    nobody = api.health()
    assert (nobody.live, nobody.ready, nobody.state.code) == (True, False, "ended")
    assert nobody.reason == "No worker runs in this process."
    assert api.start(**QUICK)
    eventually(lambda: api.health().ready, "it is ready")
    assert api.health().reason == "1 process works."
    added()
    assert gate.entered.wait(DEADLINE)
    assert not api.shutdown(wait=False)
    stopping = api.health()
    assert (stopping.live, stopping.ready, stopping.state.code) == (True, False, "stopping")
    gate.open.set()
    assert api.shutdown(timeout=DEADLINE)
    assert api.health() == nobody
