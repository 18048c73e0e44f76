"""Processes: how they end, and when they are replaced."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from itertools import count
from threading import Event
from threading import enumerate as enumerate_threads
from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks import logs
from django_tasks.host import stop_signals
from django_tasks.host.clocks import ticks
from django_tasks.host.stop_signals import Notes
from django_tasks.supervisor import processes
from django_tasks.supervisor.processes import ASKED, COST, REJECTED, Child
from django_tasks.supervisor.recycling import FIRST_DELAY, LONGEST_DELAY, STEADY_SECONDS, Recycling
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import config

LOG = "django_tasks-log"


class FakeWorker:
    """A worker without threads: it is alive until it is stopped, or from the start not."""

    made: list["FakeWorker"]
    abandoned: list[str]
    how: dict[str, Any]

    def __init__(
        self,
        config: Any,
        ended: Callable[[], None],
        kill: Any = None,
        *,
        has_neighbours: bool = False,
    ) -> None:
        self.config = config
        self.is_condemned = self.how.get("condemned") == config.using and kill is not None
        self.failed: bool = self.how["failed"] == config.using
        self.is_rejected: bool = self.how.get("rejected") == config.using
        self.stopped: bool = self.failed or self.is_rejected
        self.made.append(self)

    def start(self) -> None:
        if self.how["signal"]:
            os.kill(os.getpid(), signal.SIGTERM)

    def stop(self) -> None:
        self.stopped = True

    def join(self, timeout: float | None = None) -> bool:
        return self.stopped

    def is_alive(self) -> bool:
        return not self.stopped

    def running(self) -> list[str]:
        return []

    def has_signed_off(self) -> bool:
        return False

    def abandon(self) -> None:
        self.abandoned.append(self.config.using)

    def runs(self) -> int:
        return 12

    def was_asked_to_stop(self) -> bool:
        return bool(self.how.get("asked"))


@pytest.fixture(autouse=True)
def _no_line_is_left() -> Iterator[None]:
    """Lines that a log handler which hung is told late must not come into the next test."""
    yield
    eventually(lambda: LOG not in {each.name for each in enumerate_threads()}, "all is said")


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[FakeWorker]:
    monkeypatch.setattr(processes, "Worker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "made", [], raising=False)
    monkeypatch.setattr(FakeWorker, "abandoned", [], raising=False)
    monkeypatch.setattr(FakeWorker, "how", {"failed": "", "signal": False}, raising=False)
    return FakeWorker.made


def test_a_worker_that_ends_by_an_error_ends_its_process_with_1(
    workers: list[FakeWorker], caplog: pytest.LogCaptureFixture
) -> None:
    FakeWorker.how["failed"] = "second"
    assert processes.run_process([config(), config(using="second")]) == 1
    assert [worker.stopped for worker in workers] == [True, True]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("The worker on second has ended by an error")


@pytest.mark.parametrize("supervised", [False, True])
def test_a_statement_that_is_rejected_ends_a_process_with_a_code_that_says_so(
    workers: list[FakeWorker], supervised: bool
) -> None:
    FakeWorker.how["rejected"] = "second"
    configs = [config(), config(using="second")]
    code = processes.run_process(configs, parent=os.getppid() if supervised else None)
    assert code == (REJECTED if supervised else 1)
    assert [worker.stopped for worker in workers] == [True, True]


def test_a_process_that_was_told_to_stop_ends_with_0_and_says_what_it_did(
    workers: list[FakeWorker], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "django_tasks")
    FakeWorker.how["signal"] = True
    assert processes.run_process([config()]) == 0
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["Altogether on default: 12 runs in 0 s"]


def test_a_run_without_end_costs_a_child_and_stops_its_workers(
    workers: list[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setitem(FakeWorker.how, "condemned", "second")
    processes.run_process([config(), config(using="second")], parent=os.getppid())
    assert [worker.stopped for worker in workers] == [True, True]
    assert codes == [COST]


# Workers that were asked to stop


@pytest.mark.parametrize("supervised", [False, True])
def test_a_process_whose_workers_were_all_asked_to_stop_ends_so(
    workers: list[FakeWorker], monkeypatch: pytest.MonkeyPatch, supervised: bool
) -> None:
    monkeypatch.setitem(FakeWorker.how, "asked", True)
    monkeypatch.setattr(FakeWorker, "start", FakeWorker.stop)
    code = processes.run_process([config()], parent=os.getppid() if supervised else None)
    assert code == (ASKED if supervised else 0)


def test_a_child_of_which_one_worker_was_asked_ends_as_any_other(
    workers: list[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeWorker.how["signal"] = True
    monkeypatch.setattr(
        FakeWorker, "was_asked_to_stop", lambda worker: worker.config.using == "second"
    )
    configs = [config(), config(using="second")]
    assert processes.run_process(configs, parent=os.getppid()) == 0


@pytest.mark.parametrize(("supervised", "expected"), [(False, 1), (True, ASKED)])
def test_one_that_was_asked_is_not_replaced_if_it_is_told_to_hurry(
    workers: list[FakeWorker],
    monkeypatch: pytest.MonkeyPatch,
    supervised: bool,
    expected: int,
) -> None:
    """A person has asked for its end, and sends a signal because a run takes too long."""
    codes: list[int] = []
    FakeWorker.how["signal"] = True
    monkeypatch.setitem(FakeWorker.how, "asked", True)
    monkeypatch.setattr(FakeWorker, "is_alive", lambda worker: True)
    monkeypatch.setattr(FakeWorker, "join", lambda worker, timeout: False)
    monkeypatch.setattr(os, "_exit", codes.append)
    configs = [config(shutdown_timeout=0.01)]
    processes.run_process(configs, parent=os.getppid() if supervised else None)
    assert codes == [expected]


def test_a_child_that_was_asked_to_stop_is_not_replaced(
    watched: "Watched", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "django_tasks")
    watched.dies(ASKED)
    for _ in range(9):
        watched.child.watch()
    assert len(watched.starts) == 1
    assert watched.child.has_finished
    assert watched.child.exit_code() == 0
    (line,) = caplog.messages
    assert line == "Process 1 (pid 99) has stopped as it was asked to: no other takes its place"


# A child and its successors


def test_a_log_handler_that_hangs_keeps_no_process_alive_beyond_its_deadline(
    workers: list[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no worker from hearing that it is to stop, nor from saying in its rows that it has."""
    ended, heard, codes = Event(), [], []

    def hang(*args: Any) -> None:
        heard.append([worker.stopped for worker in workers])
        assert ended.wait(DEADLINE)

    def end(code: int) -> None:
        codes.append((code, sorted({*FakeWorker.abandoned})))
        ended.set()

    FakeWorker.how["signal"] = True
    monkeypatch.setattr(FakeWorker, "running", lambda self: ["job/1"])
    monkeypatch.setattr(processes, "LAST_WORDS_SECONDS", 0.05)
    monkeypatch.setattr(logs, "stopping", hang)
    monkeypatch.setattr(os, "_exit", end)
    waiting = [config(using=using, shutdown_timeout=0.05) for using in ("first", "second")]
    processes.run_process(waiting)
    assert codes == [(1, ["first", "second"])]
    assert heard[0] == [True, True]


@pytest.mark.parametrize(("signals", "code"), [(1, 0), (2, 1)])
def test_the_first_signal_after_a_stop_that_something_else_began_is_no_second_one(
    workers: list[FakeWorker], monkeypatch: pytest.MonkeyPatch, signals: int, code: int
) -> None:
    """A run has cost the process, say, and its neighbours may end in the time that they have."""
    ended: list[int] = []

    def end_at_once(pulse: Any, code: int) -> int:
        ended.append(code)
        return code

    monkeypatch.setattr(processes, "_end_at_once", end_at_once)
    monkeypatch.setattr(stop_signals, "SAME_STOP_SECONDS", 0.0)
    worker = FakeWorker(config(shutdown_timeout=DEADLINE), lambda: None)
    looks: list[int] = []

    def is_alive() -> bool:
        looks.append(len(looks))
        if looks[-1] in (2, 5)[:signals]:
            os.kill(os.getpid(), signal.SIGTERM)
        return len(looks) < 10

    monkeypatch.setattr(worker, "is_alive", is_alive)
    worker.stop()
    with Notes.taken(is_child=True) as notes:
        assert processes._stop([worker], notes, is_child=True) == code  # type: ignore[list-item]
    assert ended == [1] * code


class Hanging(logging.Handler):
    """As one that waits for a server which never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
        self.released = Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(vars(record)["event"])
        assert self.released.wait(DEADLINE)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Hanging]:
    """A handler of the log that hangs from its first line on, until the test is over."""
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    caplog.set_level("INFO", "django_tasks")
    handler = Hanging()
    logs.logger.addHandler(handler)
    yield handler
    logs.logger.removeHandler(handler)
    handler.released.set()


@pytest.mark.parametrize("how", ["a second signal", "the deadline"])
def test_a_log_handler_that_hangs_at_a_stop_is_not_waited_for(
    workers: list[FakeWorker], monkeypatch: pytest.MonkeyPatch, hanging: Hanging, how: str
) -> None:
    """Acts of a process at its end come before what it says, and it hears of each signal."""
    second = how == "a second signal"
    patience = DEADLINE if second else 0.05
    ended: list[Any] = []
    looks = count()

    def is_alive(worker: FakeWorker) -> bool:
        if second and next(looks) == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return not ended

    FakeWorker.how["signal"] = True
    monkeypatch.setattr(stop_signals, "SAME_STOP_SECONDS", 0.0)
    monkeypatch.setattr(FakeWorker, "running", lambda self: ["job/1"])
    monkeypatch.setattr(FakeWorker, "is_alive", is_alive)
    monkeypatch.setattr(FakeWorker, "join", lambda worker, timeout: False)
    monkeypatch.setattr(
        os, "_exit", lambda code: ended.append((code, sorted({*FakeWorker.abandoned})))
    )
    configs = [config(using=using, shutdown_timeout=patience) for using in ("first", "second")]
    began = ticks()
    processes.run_process(configs)
    assert ended[0] == (1, ["first", "second"])
    assert hanging.heard == ["stopping"]
    assert ticks() - began < processes.LAST_WORDS_SECONDS


class Watched:
    """A child that is watched, with processes that end when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, recycling: Recycling) -> None:
        self.now = 1000.0
        self.starts: list[float] = []
        monkeypatch.setattr(processes, "ticks", lambda: self.now)
        monkeypatch.setattr(Child, "start", lambda child: self.start())
        self.child = Child(1, [config()], recycling)
        self.start()

    def start(self) -> None:
        self.starts.append(self.now)
        self.child._started = self.now
        self.child._start_at = None
        alive = SimpleNamespace(is_alive=lambda: True, exitcode=None, pid=99)
        self.child._process = alive  # type: ignore[assignment]

    def dies(self, code: int) -> None:
        dead = SimpleNamespace(is_alive=lambda: False, exitcode=code, pid=99)
        self.child._process = dead  # type: ignore[assignment]

    def lives(self, seconds: float, code: int) -> float:
        """Have it end with ``code``; returns the seconds until another one was there."""
        self.now += seconds
        ended = self.now
        self.dies(code)
        before = len(self.starts)
        while len(self.starts) == before:
            self.child.watch()
            self.now += 0.125
        return self.starts[-1] - ended


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch, Recycling())


def test_a_child_that_ran_for_long_is_replaced_at_once(watched: Watched) -> None:
    assert watched.lives(STEADY_SECONDS, -9) == 0.0
    assert watched.lives(10 * STEADY_SECONDS, 1) == 0.0


def test_one_that_dies_soon_is_replaced_after_a_while_and_each_time_later(watched: Watched) -> None:
    delays = [watched.lives(1.0, 1) for _ in range(9)]
    assert delays[:7] == [FIRST_DELAY * 2**number for number in range(6)] + [LONGEST_DELAY]
    assert delays[7:] == [LONGEST_DELAY] * 2
    assert watched.lives(STEADY_SECONDS, 1) == 0.0
    assert watched.lives(1.0, 1) == FIRST_DELAY


def test_its_end_is_said_once_with_what_comes(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.lives(1.0, 1)
    watched.lives(STEADY_SECONDS, 1)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "Process 1 (pid 99) ended with code 1; starting another in 0.5 s",
        "Process 1 (pid 99) ended with code 1; starting another",
    ]


def test_one_that_has_done_enough_is_replaced_without_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert Watched(monkeypatch, Recycling(tasks=5)).lives(1.0, 0) == 0.0
    assert caplog.records == []


def test_so_is_one_that_a_run_without_end_has_cost(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """It has said so itself."""
    assert watched.lives(1.0, COST) == 0.0
    assert caplog.records == []


def test_one_that_cannot_be_started_for_now_is_started_later(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The host has no process left. The others are watched meanwhile."""
    intact, refused = watched.start, iter(range(2))

    def start() -> None:
        if next(refused, None) is not None:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        intact()

    monkeypatch.setattr(watched, "start", start)
    assert watched.lives(STEADY_SECONDS, COST) == FIRST_DELAY + 2 * FIRST_DELAY
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "Process starttask-1 cannot be started (BlockingIOError: [Errno 11] Resource temporarily"
        f" unavailable); trying again in {delay} s"
        for delay in (0.5, 1.0)
    ]
