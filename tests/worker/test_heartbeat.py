"""The thread of heartbeats: it joins, renews, watches the poller and leaves, whatever fails."""

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
from django.db import Error, OperationalError, connections

from django_tasks.host.clocks import utc_now
from django_tasks.store import errors
from django_tasks.store.dialects.postgresql import PostgreSQL
from django_tasks.worker import heartbeat as module
from django_tasks.worker.counting import Counts
from django_tasks.worker.heartbeat import (
    AFTER_DEFECT,
    RETRY_SHARE,
    TURN_SECONDS,
    Heartbeat,
    Report,
)
from django_tasks.worker.rejected import Rejected
from tests.vendor import ON_SQLITE
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import USING, config
from tests.worker.test_worker import of_state

pytestmark = pytest.mark.each_database

REPORT = Report("running", {"done": 3}, 2)
LEASE = 30.0


class Place:
    """Stands in for a membership: its lease, its next heartbeat and its errors are the test's."""

    def __init__(self) -> None:
        self.worker_id = 0
        self.errors: list[BaseException] = []
        self.leave_errors: list[BaseException] = []
        self.is_ours = True
        self.valid = True
        self.wait = 0.0
        self.calls: list[Any] = []

    def _do(self, call: Any) -> None:
        self.calls.append(call)
        if self.errors:
            raise self.errors.pop(0)

    def join(self) -> int:
        self._do("join")
        self.worker_id += 1
        return self.worker_id

    def beat(self, state: str, counters: Any, busy: int) -> bool:
        self._do((state, dict(counters), busy))
        return self.is_ours

    def leave(self) -> None:
        self.calls.append("leave")
        if self.leave_errors:
            raise self.leave_errors.pop(0)

    def seconds_to_beat(self) -> float:
        return self.wait

    def seconds_to_judge(self) -> float:
        return self.wait

    def is_valid(self, now: float | None = None) -> bool:
        return self.valid


class Guarded:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.relieved = 0
        self.counts = Counts(utc_now)

    def report(self) -> Report:
        return REPORT

    def seconds_in_cycle(self) -> float:
        return self.seconds

    def relieve(self) -> int:
        self.relieved += 1
        return 0


class Scene:
    def __init__(self) -> None:
        self.place, self.guarded = Place(), Guarded()
        self.woken = 0
        self.posted: list[Callable[[], None]] = []
        membership: Any = self.place
        self.heartbeat = Heartbeat(
            config(lease=LEASE), membership, self.guarded, self._wake, self.posted.append
        )

    def _wake(self) -> None:
        self.woken += 1

    def has_joined(self) -> bool:
        return self.heartbeat.joined

    def step(self) -> float:
        """One turn of the thread, here."""
        return self.heartbeat._guardedly(self.heartbeat.cycle)


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No database: which connections would have been dropped."""
    dropped: list[str] = []
    monkeypatch.setattr(module, "keep_connection", lambda using: None)
    monkeypatch.setattr(module, "take_connection", lambda *args: None)
    monkeypatch.setattr(module, "close_connections", lambda: dropped.append("all"))
    monkeypatch.setattr(module, "drop_connection", dropped.append)
    return dropped


@pytest.fixture
def scene(dropped: list[str]) -> Scene:
    return Scene()


def test_it_joins_first_and_then_sends_heartbeats_each_of_which_is_news(scene: Scene) -> None:
    for turn in (1, 2, 3):
        assert scene.step() == 0.0
        assert scene.woken == turn
    beat = ("running", {"done": 3}, 2)
    assert scene.place.calls == ["join", beat, beat]
    assert scene.has_joined()


def test_before_its_time_none_is_sent(scene: Scene) -> None:
    scene.step()
    scene.place.wait = 7.0
    assert scene.step() == 7.0
    assert (scene.place.calls, scene.woken) == (["join"], 1)


@pytest.mark.parametrize("kind", [OperationalError, Error])
def test_an_error_of_the_database_is_tried_again_soon_on_a_new_connection(
    scene: Scene, dropped: list[str], kind: type[Error]
) -> None:
    scene.step()
    scene.place.errors = [kind("gone"), kind("gone")]
    assert [scene.step() for _ in range(3)] == [LEASE * RETRY_SHARE] * 2 + [0.0]
    assert dropped == [USING] * 2
    assert scene.woken == 2


LOCKED = "database is locked"


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    ticks = [100.0]
    monkeypatch.setattr(module, "ticks", lambda: ticks[0])
    return ticks


def test_where_one_writes_at_a_time_it_asks_for_its_turn_again_and_again(
    scene: Scene, dropped: list[str], monkeypatch: pytest.MonkeyPatch, ticks: list[float]
) -> None:
    monkeypatch.setattr(module, "is_contention", lambda using, error: LOCKED in str(error))
    scene.heartbeat._has_one_writer = True
    scene.step()
    for _ in range(5):
        scene.place.errors = [OperationalError(LOCKED)]
        assert scene.step() == TURN_SECONDS / 2
        ticks[0] += LEASE / 4  # it has joined: nothing else is left to it
    assert dropped == []
    scene.place.errors = [OperationalError("disk I/O error")]
    assert scene.step() == LEASE * RETRY_SHARE
    assert dropped == [USING]


def test_before_it_has_joined_a_turn_that_does_not_come_is_an_outage(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    ticks: list[float],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "is_contention", lambda using, error: True)
    scene.heartbeat._has_one_writer = True
    scene.place.errors = [OperationalError(LOCKED) for _ in range(2)]
    assert scene.step() == TURN_SECONDS / 2
    assert caplog.records == []
    ticks[0] += LEASE * RETRY_SHARE
    assert scene.step() > TURN_SECONDS / 2
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert LOCKED in record.getMessage()


def test_its_waits_are_bounded_by_a_turn_or_by_a_part_of_the_lease() -> None:
    bounds = Scene().heartbeat._bounds()
    assert bounds.lock_wait == (TURN_SECONDS if ON_SQLITE else LEASE / 12)
    assert bounds.statement == LEASE / 6


def test_a_lease_that_ran_out_is_said_once_an_outage(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.step()
    for outages in (1, 2):
        scene.place.errors = [OperationalError("gone") for _ in range(4)]
        scene.place.valid = True
        scene.step()
        scene.place.valid = False
        for _ in range(4):
            scene.step()
        assert len(caplog.records) == outages


def test_until_it_has_joined_it_tells_of_a_database_that_does_not_answer(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.place.errors = [OperationalError("refused") for _ in range(3)]
    assert all(0 < scene.step() <= LEASE * RETRY_SHARE for _ in range(3))
    assert not scene.has_joined()
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith("Database default does not answer (OperationalError: refused); trying")
    scene.step()
    assert scene.has_joined()
    assert "is back after" in caplog.text


def test_a_defect_ends_no_heartbeats(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.step()
    scene.place.errors = [ZeroDivisionError()]
    assert [scene.step(), scene.step()] == [AFTER_DEFECT, 0.0]
    assert "A heartbeat on default failed" in caplog.text


def test_taken_for_dead_it_joins_again(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.step()
    scene.place.is_ours = False
    scene.step()
    assert scene.place.worker_id == 2
    assert "Worker 1 on default was taken for dead" in caplog.text


def test_a_poller_that_hangs_is_said_once_and_relieved_at_each_heartbeat(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.step()
    for seconds in (0.0, LEASE, LEASE + 1, LEASE + 2, 0.0, LEASE + 1):
        scene.guarded.seconds = seconds
        scene.step()
    assert scene.guarded.relieved == 3
    assert caplog.text.count("has not finished a cycle") == 2


# The thread


@pytest.fixture
def running(scene: Scene) -> Iterator[Scene]:
    scene.heartbeat.start()
    eventually(scene.has_joined, "it joins")
    yield scene
    scene.place.errors = []
    scene.heartbeat.stop(leave=False)
    assert scene.heartbeat.join(DEADLINE)


def test_it_leaves_last_however_often_that_fails(running: Scene, dropped: list[str]) -> None:
    running.place.leave_errors = [OperationalError("gone")]
    running.heartbeat.stop(leave=True)
    eventually(lambda: "leave" in running.place.calls, "the first try")
    running.heartbeat._stirred.set()
    assert running.heartbeat.join(DEADLINE)
    assert running.place.calls[-2:] == ["leave", "leave"]
    assert not running.heartbeat.joined
    assert dropped[-1] == "all"


def test_it_tries_no_more_to_leave_once_that_is_rejected_for_good(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "judge_of", lambda using: PostgreSQL(connections[using]))
    scene.step()
    scene.heartbeat.rejected = Rejected(USING, patience=0)
    scene.place.leave_errors = [of_state("42703")]
    scene.heartbeat.stop(leave=True)
    scene.heartbeat.start()
    assert scene.heartbeat.join(DEADLINE)
    assert scene.place.calls == ["join", "leave"]
    assert scene.heartbeat.joined


def test_tries_to_leave_do_not_follow_each_other_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[bool] = []

    class Stirred(Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(not self.is_set())
            return super().wait(0)

    scene.step()
    monkeypatch.setattr(scene.heartbeat, "_stirred", Stirred())
    scene.heartbeat.stop(leave=True)  # where stop() is late, it stirs a thread that leaves already
    scene.place.leave_errors = [OperationalError("gone"), OperationalError("gone")]
    scene.heartbeat.start()
    assert scene.heartbeat.join(DEADLINE)
    assert scene.place.calls == ["join", "leave", "leave", "leave"]
    assert pauses == [True, True, True]


def test_without_leave_its_row_stays_for_the_rescuers(running: Scene) -> None:
    running.heartbeat.stop(leave=False)
    assert running.heartbeat.join(DEADLINE)
    assert "leave" not in running.place.calls
    assert running.heartbeat.joined


def test_one_that_never_joined_has_nothing_to_leave(scene: Scene) -> None:
    scene.place.errors = [OperationalError("refused") for _ in range(1000)]
    scene.heartbeat.start()
    eventually(lambda: scene.place.calls, "the first try")
    scene.heartbeat.stop(leave=True)
    assert scene.heartbeat.join(DEADLINE)
    assert set(scene.place.calls) == {"join"}
    assert scene.place.worker_id == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_replaced_and_goes_on_with_its_lease(
    running: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    running.place.errors = [SystemExit()]
    thread = running.heartbeat._thread
    eventually(lambda: not thread.is_alive(), "the thread dies")
    before = len(running.place.calls)
    running.heartbeat.ensure()
    eventually(lambda: len(running.place.calls) > before, "the next heartbeat")
    assert running.place.calls.count("join") == 1
    assert running.place.worker_id == 1


def test_its_lines_are_written_by_another_thread(
    running: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    running.place.errors = [ZeroDivisionError()]
    eventually(lambda: running.posted, "a line is posted")
    assert caplog.records == []
    running.posted[0]()
    assert "A heartbeat on default failed" in caplog.text
