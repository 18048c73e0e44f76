"""Cycles of the poller, one at a time."""

import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.test.utils import CaptureQueriesContext

from django_tasks import signals
from django_tasks.client.control import cancel_task
from django_tasks.models import Task, WorkerRow
from django_tasks.store import claim as claim_store
from django_tasks.values.status import Status
from django_tasks.worker import lanes as lanes_module
from django_tasks.worker import poller as module
from django_tasks.worker.heartbeat import Heartbeat
from django_tasks.worker.idling import LONGEST_SLEEP
from django_tasks.worker.last_look import RELIED_SECONDS
from django_tasks.worker.poller import (
    TALLY_SECONDS,
    TIDY_EVERY,
    UNSURE_BEATS,
    Poller,
)
from tests.factories import table
from tests.waiting import DEADLINE
from tests.worker.conftest import Register
from tests.worker.parts import (
    CODE,
    USING,
    Hands,
    Ticks,
    added,
    ago,
    ahead,
    claimed,
    config,
    heard,
    joined,
    row,
    runner,
    stored,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


@pytest.fixture(autouse=True, params=["cheap", "dear"])
def looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks for lanes that are relied on for a while change nothing."""
    if request.param == "dear":
        monkeypatch.setattr(lanes_module, "DEAR_SECONDS", -1.0)


class Cycles:
    """A poller whose threads are the test's own hands."""

    def __init__(self, world: Ticks, size: int = 4, **wishes: Any) -> None:
        self.world = world
        self.config = config(**wishes)
        self.membership = joined(world, **wishes)
        self.hands = Hands(runner(self.membership), size)
        self.poller = Poller(self.config, self.membership, self.hands.executor)
        self.heartbeat = Heartbeat(
            self.config, self.membership, self.poller, lambda: None, lambda message: message()
        )
        self.heartbeat.joined = True
        self.run = self.poller.run_once

    def beat(self) -> float:
        """A heartbeat, and the cycle that it gives a reason for."""
        self.world.ahead += self.config.heartbeat_interval
        self.heartbeat.cycle()
        return self.run()

    def has_finished(self) -> bool:
        return self.poller.finished


def test_a_due_task_is_claimed_run_and_its_row_removed(register: Register, world: Ticks) -> None:
    runs: list[Any] = []
    register(runs.append)
    added()
    cycles = Cycles(world)
    assert cycles.run() == 0
    assert stored().status == Status.RUNNING
    cycles.hands.work()
    cycles.run()
    assert row() is None
    assert len(runs) == 1


def test_a_minute_of_runs_is_told_once(
    register: Register,
    world: Ticks,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "ticks", world)
    register(lambda task: None)
    cycles = Cycles(world)

    def tallies() -> list[str]:
        cycles.hands.work()
        cycles.run()
        cycles.beat()
        told = [message for message in caplog.messages if message.startswith("In the last")]
        caplog.clear()
        return told

    added("1")
    added("2")
    cycles.run()
    assert tallies() == []
    world.ahead += TALLY_SECONDS
    (told,) = tallies()
    beats = 2 * cycles.config.heartbeat_interval
    found = re.fullmatch(r"In the last (\d+) s on default: 2 done", told)
    assert found
    assert TALLY_SECONDS + beats <= float(found[1]) < TALLY_SECONDS + beats + DEADLINE
    assert tallies() == []
    world.ahead += TALLY_SECONDS
    assert tallies() == []  # nothing has happened


LONGEST_FULL = 5.0


@pytest.fixture
def dear_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look from the start of the lanes is dear, as under somebody's old snapshot."""
    monkeypatch.setattr(lanes_module, "DEAR_SECONDS", -1.0)
    monkeypatch.setattr(lanes_module, "ALONG_SHARE", 1e9)
    monkeypatch.setattr(lanes_module, "FULL_SHARE", 1e-9)
    monkeypatch.setattr(lanes_module, "HINTED_SHARE", 1e-9)
    # Less than a lease, which these cycles do not renew.
    monkeypatch.setattr(lanes_module, "LONGEST_FULL_SECONDS", LONGEST_FULL)


def passed_by(cycles: Cycles) -> None:
    """A worker whose searches begin behind a task that has come to wait since, unannounced."""
    for number in range(3):
        added(f"done {number}", when=ago(60 - number))
        cycles.world.ahead += RELIED_SECONDS  # the last look
        cycles.run()
        cycles.hands.work()
    cycles.run()
    added("early", when=ago(3600))
    for _ in range(3):
        cycles.run()
        cycles.hands.work()
    assert stored("early").status == Status.PENDING


@pytest.mark.usefixtures("dear_looks")
def test_a_task_before_the_place_where_searches_begin_is_found_after_a_while(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    cycles = Cycles(world)
    passed_by(cycles)
    world.ahead += LONGEST_FULL
    cycles.run()
    assert stored("early").status == Status.RUNNING


@pytest.mark.usefixtures("dear_looks")
def test_or_sooner_if_a_hint_has_announced_it(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "HINTED_SHARE", 1e9)
    register(lambda task: None)
    cycles = Cycles(world)
    passed_by(cycles)
    cycles.poller.note_overdue()
    cycles.run()
    assert stored("early").status == Status.RUNNING


@pytest.mark.usefixtures("dear_looks")
def test_what_is_given_back_is_found_at_once(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    cycles = Cycles(world, size=2)
    added("late", when=ago(10))
    cycles.run()
    cycles.hands.work()
    added("1", when=ago(60))
    added("2", when=ago(30))
    world.ahead += LONGEST_FULL
    cycles.run()
    assert {task.biz_num for task in Task.objects.filter(status=Status.RUNNING)} == {"1", "2"}
    cycles.poller._take_back()
    for _ in range(2):
        cycles.run()
    assert {task.biz_num for task in Task.objects.filter(status=Status.RUNNING)} == {"1", "2"}


def test_the_next_time_comes_back_as_the_delay(register: Register, world: Ticks) -> None:
    register(lambda task: timedelta(seconds=0.15))
    added()
    cycles = Cycles(world, poll_interval=1.0)
    cycles.run()
    cycles.hands.work()
    assert 0 < cycles.run() <= 0.15


def test_no_delay_is_much_longer_than_the_poll_interval(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    added(when=ahead())
    assert 0.4 <= Cycles(world, poll_interval=0.4).run() <= 0.4 * LONGEST_SLEEP


def test_as_long_as_there_is_more_to_rescue_it_does_not_sleep(
    world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = Cycles(world)
    assert cycles.run() > 0
    rescues: list[int] = []
    monkeypatch.setattr(cycles.poller._rescuer, "has_more", lambda: True)
    monkeypatch.setattr(cycles.poller._rescuer, "rescue_some", lambda: rescues.append(1))
    assert cycles.run() == 0
    assert rescues == [1]


def test_an_idle_worker_costs_seventy_statements_a_minute_at_most(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added(when=ahead())
    cycles = Cycles(world, poll_interval=1.0, lease=30.0)
    cycles.run()
    minutes = 5
    end = world() + 60 * minutes
    with CaptureQueriesContext(connections[USING]) as sent:
        while world() < end:
            world.ahead += cycles.run()
    assert len(sent) <= 70 * minutes


def test_a_buffer_that_nobody_gets_to_is_given_back(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    for number in range(3):
        added(str(number))
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin(1)
    cycles.hands.stale = True
    assert cycles.run() == 0
    cycles.hands.stale = False
    cycles.hands.size = 0
    cycles.run()
    assert sorted(Task.objects.values_list("status", flat=True)) == [0, 0, 1]
    assert not cycles.hands.waiting


def test_the_heartbeat_goes_on_while_handlers_run(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin()
    for _ in range(10):
        cycles.beat()
        assert cycles.membership.is_valid()
    age = cycles.membership.clock.now() - WorkerRow.objects.get().heartbeat
    assert age < timedelta(seconds=10)


# Stopping


def test_quiet_it_gives_back_what_has_not_started_and_waits_for_the_rest(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    for number in range(3):
        added(str(number))
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin(1)
    cycles.poller.quieten()
    cycles.run()
    cycles.run()
    assert sorted(Task.objects.values_list("status", "claimed_by")) == [
        (0, None),
        (0, None),
        (1, cycles.membership.worker_id),
    ]
    assert not cycles.has_finished()
    added("late")
    cycles.beat()
    assert WorkerRow.objects.get().state == "stopping"
    assert not cycles.hands.waiting
    cycles.hands.work()
    cycles.run()
    assert cycles.has_finished()
    assert Task.objects.filter(status=0).count() == Task.objects.count() == 3


def test_quiet_and_idle_it_has_finished_at_once(world: Ticks) -> None:
    cycles = Cycles(world)
    cycles.poller.quieten()
    assert cycles.run() == 0
    assert cycles.has_finished()


def test_until_empty_ends_when_nothing_is_due_and_nothing_runs(
    register: Register, world: Ticks
) -> None:
    answers = [timedelta(0), None]
    register(lambda task: answers.pop(0))
    added()
    added("future", when=ahead())
    cycles = Cycles(world, until_empty=True)
    for _ in range(2):
        cycles.run()
        cycles.run()
        assert not cycles.has_finished()
        cycles.hands.work()
    cycles.run()
    cycles.run()
    assert cycles.has_finished()
    assert [task.biz_num for task in Task.objects.all()] == ["future"]


def test_until_empty_does_not_wait_for_a_code_that_nobody_knows(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added("1", "unknown")
    cycles = Cycles(world, until_empty=True)
    cycles.run()
    cycles.run()
    assert cycles.has_finished()


def test_until_empty_does_not_end_while_others_are_at_what_is_due(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world, until_empty=True)
    with monkeypatch.context() as patch:
        patch.setattr(claim_store, "claim", lambda *args, **kwargs: [])
        for _ in range(3):
            cycles.run()
    assert not cycles.has_finished()
    cycles.run()
    cycles.hands.work()
    cycles.run()
    cycles.run()
    assert cycles.has_finished()


def test_max_tasks_ends_after_so_many(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    for number in range(5):
        added(str(number))
    cycles = Cycles(world, size=2, max_tasks=3)
    for _ in range(3):
        cycles.run()
        cycles.hands.work()
    cycles.run()
    cycles.run()
    assert cycles.has_finished()
    assert Task.objects.filter(status=0).count() == Task.objects.count() == 2


def test_one_task_less_is_not_enough(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world, size=2, max_tasks=2)
    for _ in range(3):
        cycles.run()
        cycles.hands.work()
    assert not cycles.has_finished()


# When others took us for dead


def test_taken_for_dead_it_goes_on_as_somebody_new_and_starts_nothing_that_it_held(
    register: Register, world: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[str] = []
    register(lambda task: runs.append(task.biz_num))
    added("started")
    cycles = Cycles(world, size=1)
    cycles.run()
    cycles.hands.begin()
    cycles.hands.size = 2
    added("buffered")
    cycles.run()
    old = cycles.membership.worker_id
    WorkerRow.objects.all().delete()
    table().update(status=0, claimed_by=None, version=9)
    with heard(signals.task_lost) as lost:
        cycles.hands.size = 0
        cycles.beat()
        cycles.hands.work()
        cycles.run()
    assert cycles.membership.worker_id != old
    assert runs == []
    assert lost == []
    assert list(Task.objects.values_list("status", "claimed_by", "version")) == [(0, None, 9)] * 2
    assert f"Worker {old} on default was taken for dead" in caplog.text
    cycles.hands.size = 2
    cycles.run()
    cycles.hands.work()
    cycles.run()
    assert not Task.objects.exists()


# When an answer of the database was lost


def failing_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *, after: bool) -> None:
    """The next call fails, before or after it had its effect."""
    real = getattr(module, name)

    def fail(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(module, name, real)
        if after:
            real(*args, **kwargs)
        raise OperationalError("server has gone away")

    monkeypatch.setattr(module, name, fail)


def test_a_claim_whose_answer_was_lost_is_found_and_given_back(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world)
    failing_once(monkeypatch, claim_store, "claim", after=True)
    with pytest.raises(OperationalError):
        cycles.run()
    cycles.poller.unsure()
    assert stored().claimed_by == cycles.membership.worker_id
    cycles.beat()
    assert stored().version > 1
    cycles.hands.work()
    cycles.run()
    assert row() is None


def test_strays_are_looked_for_now_and_then_even_when_nothing_failed(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world, size=0)
    claimed(cycles.membership.worker_id)
    for _ in range(TIDY_EVERY):
        cycles.beat()
    assert (stored().status, stored().claimed_by) == (Status.PENDING, None)


def test_after_a_lost_answer_they_are_looked_for_at_some_heartbeats(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None)
    looks: list[int] = []
    cycles = Cycles(world)
    beats = 0
    while cycles.membership.view.beats % TIDY_EVERY:
        cycles.beat()
    monkeypatch.setattr(module, "give_back_strays", lambda *args, **kwargs: looks.append(beats))
    cycles.poller.unsure()
    for beats in range(1, TIDY_EVERY):  # noqa: B007  read by the look
        cycles.beat()
    assert looks == list(range(1, UNSURE_BEATS + 1))


def test_what_runs_is_no_stray(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin()
    cycles.poller.unsure()
    for _ in range(3 * UNSURE_BEATS):
        cycles.beat()
    assert (stored().status, stored().version) == (Status.RUNNING, 1)


def test_an_end_whose_answer_was_lost_is_not_told_as_lost(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end was written, only the answer did not arrive: that task went to nobody else."""
    register(lambda task: None)
    added()
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.work()
    failing_once(
        monkeypatch,
        __import__("django_tasks.worker.finisher").worker.finisher,
        "finish",
        after=True,
    )
    with pytest.raises(OperationalError):
        cycles.run()
    cycles.poller.unsure()
    with heard(signals.task_lost) as lost:
        cycles.run()
    assert row() is None
    assert lost == []


def test_after_contention_one_cycle_steps_over_what_is_locked(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None)
    cares: list[bool] = []

    def claim(*args: Any, careful: bool, **kwargs: Any) -> list[Any]:
        cares.append(careful)
        return []

    monkeypatch.setattr(claim_store, "claim", claim)
    added()
    cycles = Cycles(world)
    cycles.run()
    cycles.poller.contended()
    cycles.run()
    cycles.run()
    assert cares == [False, True, False]


# What a person is told


@pytest.mark.parametrize(
    ("timeout", "schedule"), [(0, None), (3600, "every 1h | timeout 0s")], ids=str
)
def test_a_run_beyond_its_timeout_is_told_once_while_it_runs(
    register: Register,
    world: Ticks,
    caplog: pytest.LogCaptureFixture,
    timeout: float,
    schedule: str | None,
) -> None:
    register(lambda task: None, timeout=timeout)
    added(schedule=schedule)
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin()
    for _ in range(3):
        cycles.beat()
    assert [text for text in caplog.messages if text.startswith(f"{CODE}/")] == caplog.messages
    assert caplog.text.count("has been running for") == 1


def test_a_cancel_before_the_start_of_what_was_claimed_lets_it_run_and_go(
    register: Register, world: Ticks
) -> None:
    seen: list[bool] = []
    register(lambda task: seen.append(task.cancel_requested))
    added()
    cycles = Cycles(world)
    cycles.run()
    assert cancel_task(CODE, "1") == "cancelling"
    cycles.hands.work()
    cycles.run()
    assert seen == [True]
    assert row() is None
