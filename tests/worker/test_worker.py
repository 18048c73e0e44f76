"""The cycles of a worker's thread: what follows an error of one of them."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_tasks.store import errors
from django_tasks.store.dialects.postgresql import PostgreSQL
from django_tasks.worker import worker as module
from django_tasks.worker.outage import FIRST_DELAY
from django_tasks.worker.rejected import Rejected
from django_tasks.worker.worker import CONTENTION_SECONDS, Worker
from tests.waiting import DEADLINE
from tests.worker.parts import USING, config

pytestmark = pytest.mark.each_database

POLL_INTERVAL = 7.0


class Poller:
    """Stands in for the real one: each cycle ends as the test says, with a delay or an error."""

    def __init__(self) -> None:
        self.cycles: Iterator[float | Exception] = iter(())
        self.calls: list[str] = []
        self.rejected = Rejected(USING, patience=30)

    def run_once(self) -> float:
        end = next(self.cycles)
        if isinstance(end, Exception):
            raise end
        return end

    def unwritten(self) -> int:
        return 3

    def unsure(self) -> None:
        self.calls.append("unsure")

    def contended(self) -> None:
        self.calls.append("contended")


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    dropped: list[str] = []
    monkeypatch.setattr(module, "drop_connection", dropped.append)
    monkeypatch.setattr(errors, "judge_of", lambda using: PostgreSQL(connections[using]))
    return dropped


def of_state(state: str) -> OperationalError:
    error = OperationalError(f"of the state {state}")
    error.__cause__ = type("Cause", (Exception,), {"sqlstate": state})()
    return error


def cycles(*ends: float | Exception) -> tuple[list[float], list[str]]:
    """Seconds to sleep after cycles with these ends, and what the poller was told."""
    worker, poller = Worker(config(poll_interval=POLL_INTERVAL)), Poller()
    stand_in: Any = poller
    worker._poller = stand_in
    poller.cycles = iter(ends)
    return [worker._cycle() for _ in ends], poller.calls


def test_after_a_good_cycle_it_sleeps_as_long_as_the_poller_says(dropped: list[str]) -> None:
    assert cycles(0.5, 0.0) == ([0.5, 0.0], [])
    assert dropped == []


def test_after_contention_it_goes_on_at_once_and_carefully(dropped: list[str]) -> None:
    assert cycles(of_state("40P01")) == ([CONTENTION_SECONDS], ["contended"])
    assert dropped == []


def test_an_outage_is_told_with_its_error_and_what_is_unwritten_and_has_a_new_connection(
    dropped: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    delays, calls = cycles(of_state("57P01"))
    assert calls == ["unsure"]
    assert dropped == [USING]
    assert 0 < delays[0] <= FIRST_DELAY
    assert "of the state 57P01" in caplog.text
    assert "3 " in caplog.text


def test_the_end_of_an_outage_is_told(dropped: list[str], caplog: pytest.LogCaptureFixture) -> None:
    cycles(of_state("57P01"), 0.0)
    assert len(caplog.messages) == 2


def test_a_defect_is_told_and_waited_for(
    dropped: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert cycles(ZeroDivisionError("a defect")) == ([POLL_INTERVAL], ["unsure"])
    assert "a defect" in caplog.text


class Counting(Event):
    """Counts how often it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def set(self) -> None:
        self.count += 1
        super().set()


def test_the_end_of_a_run_wakes_the_poller_once() -> None:
    worker, woken = Worker(config()), Counting()
    worker._woken = woken
    for _ in range(3):
        worker._wake()
    assert woken.is_set()
    assert woken.count == 1


def test_a_thread_that_dies_says_of_which_database_it_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(module, "take_connection", fail)
    worker = Worker(config())
    worker.start()
    assert worker.join(DEADLINE)
    assert worker.failed
    assert f"The poller on {USING} has ended by an error" in caplog.text
