"""Somebody's transaction holds rows locked for long; a worker goes on around them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction

from django_tasks import api
from django_tasks.client.adding import add_task
from django_tasks.models import Task, WorkerRow
from django_tasks.store import claim as claims
from django_tasks.values.status import Status
from django_tasks.worker.executor import Executor
from django_tasks.worker.poller import Poller
from tests.factories import table
from tests.vendor import SERVERS, only_on
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import (
    CODE,
    Ticks,
    added,
    ago,
    ahead,
    claimed,
    config,
    joined,
    row,
    runner,
    stored,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("embedded_workers"),
    only_on(*SERVERS, because="SQLite has no row locks: one writer stops all others"),
]

Holding = Callable[[str], AbstractContextManager[None]]


@contextmanager
def held_in_a_view(biz_num: str) -> Iterator[None]:
    """``add_task`` on a key, in a transaction that stays open for the time of the ``with``."""
    added_it, commit = Event(), Event()
    errors: list[BaseException] = []

    def view() -> None:
        try:
            with transaction.atomic():
                add_task(Task(biz_code=CODE, biz_num=biz_num, when=ago(), biz_ext="view"))
                added_it.set()
                assert commit.wait(DEADLINE)
        except BaseException as error:
            errors.append(error)
        finally:
            added_it.set()
            connections.close_all()

    thread = Thread(target=view)
    thread.start()
    assert added_it.wait(DEADLINE)
    try:
        yield
    finally:
        commit.set()
        thread.join(DEADLINE)
    assert not thread.is_alive()
    assert errors == []


def has_gone(biz_num: str, biz_code: str) -> bool:
    return row(biz_num, biz_code) is None


def test_a_locked_running_row_stops_neither_the_heartbeat_nor_the_ends_of_others(
    register: Register,
) -> None:
    lease = 2.0
    entered, let_go = Event(), Event()

    def handle(task: Any) -> None:
        if task.biz_num == "locked" and task.biz_ext is None:
            entered.set()
            assert let_go.wait(DEADLINE)

    # Codes that sort after the locked key: MariaDB locks the gap before that one as well.
    register(handle)
    register(lambda task: None, "other")
    added("locked")
    api.start(threads=2, poll_interval=0.05, lease=lease)
    assert entered.wait(DEADLINE)
    worker = WorkerRow.objects.get()
    with held_in_a_view("locked"):
        let_go.set()
        end, rounds = monotonic() + 1.5 * lease + 1, 0
        while monotonic() < end:
            added(str(rounds), "other")
            eventually(partial(has_gone, str(rounds), "other"), f"the end of task {rounds}")
            rounds += 1
        found = WorkerRow.objects.get()
        assert found.pk == worker.pk, "it was taken for dead, or has given itself up"
        assert found.heartbeat - worker.heartbeat > timedelta(seconds=lease)
        assert row("locked") is not None
    assert rounds >= 2
    eventually(lambda: row("locked") is None, "what the view added has run")


def test_a_locked_due_row_does_not_stop_the_claims_of_others(register: Register) -> None:
    register(lambda task: None)
    added("locked")
    for number in range(3):
        added(str(number), when=ahead(1))
    with held_in_a_view("locked"):
        api.start(threads=2, poll_interval=0.05, lease=3)
        eventually(lambda: Task.objects.count() == 1, "the others are done")
        assert stored("locked").status == Status.PENDING
    eventually(lambda: row("locked") is None, "it runs when the view is done")


def test_a_locked_suspect_holds_up_nobody(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again and again, by each worker that has seen it."""
    tried, claim_alone = Event(), claims.claim_alone

    def trying(*args: Any, **kwargs: Any) -> Any:
        tried.set()
        return claim_alone(*args, **kwargs)

    monkeypatch.setattr(claims, "claim_alone", trying)
    register(lambda task: None)
    added("locked")
    table(biz_num="locked").update(rescues=2)
    with held_in_a_view("locked"):
        api.start(threads=2, poll_interval=0.05, lease=6 * DEADLINE)  # it would wait for a sixth
        for number in range(3):
            assert tried.wait(DEADLINE)
            added(f"z{number}")  # not in the gap before it, which MariaDB locks as well
            eventually(lambda: Task.objects.count() == 1, "the other one is done", deadline=10)
            tried.clear()
    eventually(lambda: row("locked") is None, "it runs when the view is done")


def test_a_locked_row_of_a_dead_worker_does_not_stop_the_heartbeat_of_its_rescuer(
    register: Register, world: Ticks
) -> None:
    """Waiting for the lock again and again would take the rescuer longer than its own lease."""
    register(lambda task: None)
    lease = 3.0
    settings = config(lease=lease)
    membership = joined(world, lease=lease)
    executor = Executor(1, runner(membership).runner, lambda: None)
    poller = Poller(settings, membership, executor)
    for _ in range(4):
        world.ahead += 1
        assert membership.beat("running", {})
        poller.run_once()
    added("locked")
    added("free")
    claimed(membership.worker_id + 1000, limit=2)
    poller.unsure()
    assert membership.beat("running", {})
    assert membership.may_rescue()
    with held_in_a_view("locked"):
        world.ahead += 1
        longest, end = 0.0, monotonic() + 2 * lease
        while monotonic() < end:
            begin = monotonic()
            try:
                poller.run_once()
            except OperationalError:
                poller.contended()  # as its worker would, after a lock that took too long
            longest = max(longest, monotonic() - begin)
        assert longest < lease, f"no cycle ended for {longest:.1f} s"
        assert row("free") is None or stored("free").claimed_by != membership.worker_id + 1000
    executor.close()
