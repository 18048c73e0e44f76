"""The condition of a worker, as its probes tell it."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError

from django_tasks.api import ask_worker
from django_tasks.models import WorkerRow
from django_tasks.worker.condition import Condition
from django_tasks.worker.worker import Worker
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import added, config


@pytest.fixture
def worker(transactional_db: None) -> Iterator[Worker]:
    """A worker that has not started."""
    worker = Worker(config(lease=1.5, poll_interval=0.1))
    yield worker
    worker.stop()
    assert worker.join(DEADLINE)


def becomes(worker: Worker, condition: Condition) -> None:
    eventually(lambda: worker.condition() is condition, f"it is {condition.name}")


def test_from_its_start_to_its_end(register: Register, worker: Worker) -> None:
    started, gate = Event(), Event()

    def wait(task: Any) -> None:
        started.set()
        assert gate.wait(DEADLINE)

    register(wait)
    assert worker.condition() is Condition.STARTING
    worker.start()
    becomes(worker, Condition.WORKING)
    added()
    assert started.wait(DEADLINE)
    assert worker.condition() is Condition.WORKING
    worker.stop()
    assert worker.condition() is Condition.STOPPING
    gate.set()
    becomes(worker, Condition.ENDED)


def test_a_wish_to_be_quiet_and_to_work(register: Register, worker: Worker) -> None:
    register(lambda task: None)
    worker.start()
    becomes(worker, Condition.WORKING)
    for wish, condition in (("quiet", Condition.QUIET), ("", Condition.WORKING)):
        assert ask_worker(WorkerRow.objects.get().pk, wish)
        becomes(worker, condition)
    assert ask_worker(WorkerRow.objects.get().pk, "stop")
    becomes(worker, Condition.ENDED)


@pytest.mark.parametrize("part", ["_poller", "_heartbeat"])
def test_a_database_that_is_gone_for_either_of_its_threads(
    register: Register, worker: Worker, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    register(lambda task: None)
    worker.start()
    becomes(worker, Condition.WORKING)
    step = "run_once" if part == "_poller" else "cycle"

    def fail() -> float:
        raise OperationalError("it is gone")

    with monkeypatch.context() as outage:
        outage.setattr(getattr(worker, part), step, fail)
        becomes(worker, Condition.WITHOUT_DATABASE)
    becomes(worker, Condition.WORKING)


def test_a_poller_that_hangs_is_told_only_while_heartbeats_go_through(
    register: Register, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them it hangs over its database, and a restart would not help."""
    register(lambda task: None)
    worker.start()
    becomes(worker, Condition.WORKING)
    monkeypatch.setattr(worker._poller, "seconds_in_cycle", lambda: 1.6)
    assert worker.condition() is Condition.HANGING
    monkeypatch.setattr(worker._membership, "is_valid", lambda *now: False)
    assert worker.condition() is Condition.WITHOUT_DATABASE


def test_programs_read_words() -> None:
    assert Condition.WITHOUT_DATABASE.code == "without_database"
