"""Wishes of a person to a worker: to be quiet, to work again, to stop."""

import logging
from threading import Event
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_tasks import api
from django_tasks.api import ask_worker
from django_tasks.models import Task, WorkerRow
from django_tasks.store import workers
from django_tasks.values.status import OWNED, Status
from django_tasks.worker.membership import FIRST_INTERVAL
from tests.factories import table
from tests.waiting import DEADLINE, eventually, never
from tests.worker.conftest import Register
from tests.worker.parts import USING, Ticks, added, ahead, joined, worker_row
from tests.worker.test_poller import Cycles

in_place = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


def placed(function: Any) -> Any:
    for mark in in_place:
        function = mark(function)
    return function


def owned() -> int:
    return Task.objects.filter(status__in=OWNED).count()


def state(cycles: Cycles) -> str:
    return WorkerRow.objects.get(pk=cycles.membership.worker_id).state


def asked(cycles: Cycles, wish: str) -> None:
    """Ask, and let it hear of it: the heartbeat that reads, and the one that tells."""
    assert ask_worker(cycles.membership.worker_id, wish)
    cycles.beat()
    cycles.run()
    cycles.beat()


@placed
def test_a_quiet_worker_gives_back_what_has_not_started_and_lets_the_rest_end(
    register: Register, world: Ticks
) -> None:
    ran: list[str] = []
    register(lambda task: ran.append(task.biz_num))
    for number in range(6):
        added(str(number))
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin(1)
    asked(cycles, "quiet")
    assert (owned(), state(cycles)) == (1, "quiet")
    cycles.hands.work()
    for _ in range(3):
        cycles.beat()
    assert (len(ran), owned(), state(cycles)) == (1, 0, "quiet")
    assert not cycles.has_finished()
    assert cycles.membership.is_valid()


@placed
def test_it_works_again_when_it_is_asked_to(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    cycles = Cycles(world)
    asked(cycles, "quiet")
    added()
    for _ in range(3):
        cycles.run()
    assert owned() == 0
    asked(cycles, "")
    assert (owned(), state(cycles)) == (1, "running")


@placed
def test_a_quiet_worker_asks_the_database_for_nothing_between_two_heartbeats(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world, poll_interval=0.7)
    asked(cycles, "quiet")
    with CaptureQueriesContext(connection) as captured:
        for _ in range(3):
            assert 0 < cycles.run() <= 0.7 * 1.2
    assert len(captured) == 0


@placed
def test_each_wish_is_said_once(
    register: Register, world: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "django_tasks")
    cycles = Cycles(world)
    for wish in ("quiet", "", "quiet", "stop", "", "quiet"):
        asked(cycles, wish)
        asked(cycles, wish)
    who = f"Worker {cycles.membership.worker_id} on default was asked to"
    assert [line for line in caplog.messages if line.startswith("Worker")] == [
        f"{who} be quiet: it claims nothing until it is asked to work again",
        f"{who} work again",
        f"{who} be quiet: it claims nothing until it is asked to work again",
        f"{who} stop: it ends when nothing runs in it any more",
    ]


@placed
def test_a_worker_that_was_asked_to_stop_ends_when_nothing_runs(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    for number in range(3):
        added(str(number))
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin(1)
    asked(cycles, "stop")
    assert (owned(), state(cycles)) == (1, "stopping")
    assert cycles.poller.was_asked_to_stop()
    assert not cycles.has_finished()
    cycles.hands.work()
    cycles.run()
    cycles.run()
    assert cycles.has_finished()
    assert owned() == 0


@placed
def test_a_stop_that_was_heard_of_stands_whatever_is_asked_later(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin(1)
    asked(cycles, "stop")
    asked(cycles, "")
    added("2")
    cycles.run()
    assert (owned(), state(cycles)) == (1, "stopping")


@placed
def test_a_wish_that_was_taken_back_before_it_was_read_was_none(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    cycles = Cycles(world)
    assert ask_worker(cycles.membership.worker_id, "stop")
    asked(cycles, "")
    added()
    cycles.run()
    assert owned() == 1
    assert not cycles.poller.was_asked_to_stop()


@placed
def test_one_that_was_taken_for_dead_stays_quiet_under_its_new_id(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    cycles = Cycles(world)
    asked(cycles, "quiet")
    old = cycles.membership.worker_id
    workers.remove(old, using=USING)
    added()
    cycles.beat()
    cycles.run()
    row = WorkerRow.objects.get()
    assert row.pk != old
    assert (row.wish, owned()) == ("quiet", 0)
    cycles.beat()
    assert state(cycles) == "quiet"
    asked(cycles, "")
    assert owned() == 1


@placed
def test_one_that_ends_when_the_queue_is_empty_does_not_end_by_what_it_knew_before(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added("1")
    cycles = Cycles(world, until_empty=True)
    cycles.run()
    cycles.hands.begin(1)
    cycles.run()
    cycles.run()  # nothing is due, and one runs
    asked(cycles, "quiet")
    added("2")
    cycles.hands.work()
    for _ in range(3):
        cycles.beat()
    assert not cycles.has_finished()
    asked(cycles, "")
    assert owned() == 1
    cycles.hands.work()
    for _ in range(3):
        cycles.run()
    assert cycles.has_finished()
    assert not Task.objects.exists()


@placed
def test_one_that_has_run_as_many_as_it_was_to_ends_though_it_is_quiet(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added("1")
    added("2")
    cycles = Cycles(world, max_tasks=1)
    cycles.run()
    cycles.hands.begin(1)
    asked(cycles, "quiet")
    assert not cycles.has_finished()
    cycles.hands.work()
    for _ in range(3):
        cycles.run()
    assert cycles.has_finished()


@placed
def test_a_quiet_worker_is_active_for_no_sticky_handler(register: Register, world: Ticks) -> None:
    cycles = Cycles(world)
    assert not cycles.poller.claims_no_more()
    asked(cycles, "quiet")
    assert cycles.poller.claims_no_more()
    asked(cycles, "")
    assert not cycles.poller.claims_no_more()


@placed
def test_a_task_that_was_slept_for_is_not_claimed_by_a_quiet_worker(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added("1", when=ahead(5))
    cycles = Cycles(world)
    cycles.run()
    asked(cycles, "quiet")
    world.ahead += 5
    cycles.run()
    assert owned() == 0


@placed
def test_the_heartbeat_after_another_wish_comes_soon(world: Ticks) -> None:
    membership = joined(world)
    for _ in range(9):
        world.ahead += membership.seconds_to_beat()
        membership.beat("running", {})
    assert membership.seconds_to_beat() > 9
    ask_worker(membership.worker_id, "quiet")
    membership.beat("running", {})
    assert membership.seconds_to_beat() <= FIRST_INTERVAL
    world.ahead += 1
    membership.beat("quiet", {})
    assert membership.seconds_to_beat() > 9


@placed
def test_others_count_and_ring_only_those_that_may_claim(world: Ticks) -> None:
    older = worker_row(name="vm:1", doorbell="10.0.0.1:5")
    membership = joined(world)
    membership.beat("running", {})
    assert (len(membership.living()), membership.rank()) == (2, 1)
    ask_worker(older.pk, "quiet")
    membership.beat("running", {})
    assert (len(membership.living()), membership.rank()) == (1, 0)
    assert workers.doors(using=USING) == []
    assert [peer.id for peer in membership.view.peers] == [older.pk, membership.worker_id]


@placed
def test_a_quiet_worker_still_rescues(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    added()
    cycles = Cycles(world)
    asked(cycles, "quiet")
    table(biz_num="1").update(status=Status.RUNNING, claimed_by=10**9)
    for _ in range(12):
        cycles.beat()
    assert owned() == 0


# Real workers


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("embedded_workers")
def test_an_embedded_worker_is_quiet_works_again_and_stops(register: Register) -> None:
    ran = Event()
    register(lambda task: ran.set())
    api.start(poll_interval=0.05, threads=2, lease=3)
    eventually(WorkerRow.objects.exists, "the worker has joined")
    worker = WorkerRow.objects.get().pk

    def has_state(word: str) -> Any:
        return lambda: WorkerRow.objects.filter(pk=worker, state=word).exists()

    assert ask_worker(worker, "quiet")
    eventually(has_state("quiet"), "it says that it is quiet")
    added()
    never(ran.is_set, "a run", seconds=0.3)
    assert ask_worker(worker, "")
    assert ran.wait(DEADLINE)
    eventually(has_state("running"), "it says that it works")
    assert api.running() == [USING]
    assert ask_worker(worker, "stop")
    eventually(lambda: api.running() == [], "it has stopped")
    eventually(lambda: not WorkerRow.objects.exists(), "its row is gone")
    assert not ask_worker(worker, "")
    assert api.start(poll_interval=0.05, threads=2, lease=3)
