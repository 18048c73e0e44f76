"""Rows of handlers with a schedule are kept in a thread of its own, for which nobody waits."""

from collections.abc import Callable
from datetime import datetime
from threading import Event, current_thread
from typing import Any

import pytest
from django.db import OperationalError

from django_tasks.clock import Clock, ClockReading
from django_tasks.host.clocks import ticks, utc_now
from django_tasks.worker import recurring as module
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.recurring import RETRY_SECONDS, Recurring
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import USING, Ticks, config

pytestmark = pytest.mark.each_database


class Keep:
    """Stands in for what writes the rows; fails or hangs as long as it is told to."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.failures = 0
        self.may_end = Event()
        self.may_end.set()

    def __call__(self, now: datetime, config: WorkerConfig) -> None:
        self.threads.append(current_thread().name)
        assert config.using == USING
        assert self.may_end.wait(DEADLINE)
        if len(self.threads) <= self.failures:
            raise OperationalError("server has gone away")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """Time that the test pushes forward."""
    ticks = Ticks()
    monkeypatch.setattr(module, "ticks", ticks)
    return ticks


@pytest.fixture
def hanging() -> Keep:
    """One that does not come to an end until it may."""
    keep = Keep()
    keep.may_end.clear()
    return keep


def recurring(keep: Callable[..., None]) -> Recurring:
    return Recurring(config(), Clock(ClockReading(utc_now(), ticks()), ticks), keep)


def at_rest(each: Recurring) -> None:
    eventually(lambda: not each._is_at_work(), "its thread ends")


def test_rows_are_kept_once_for_the_handlers_there_are(register: Register) -> None:
    keep = Keep()
    rows = recurring(keep)
    register(lambda task: None)
    assert not rows.is_settled()
    rows.keep_up()
    assert rows._thread is not None
    assert rows._thread.daemon  # a trigger that hangs keeps no process from its end
    eventually(rows.is_settled, "the rows are kept")
    at_rest(rows)
    rows.keep_up()
    assert keep.threads == [f"django_tasks-schedules-{USING}"]


def test_a_handler_that_is_registered_later_has_them_kept_again(
    register: Register, later: Ticks
) -> None:
    keep = Keep()
    rows = recurring(keep)
    for number in range(1, 4):
        register(lambda task: None, f"job {number}")
        assert not rows.is_settled()
        later.ahead += RETRY_SECONDS
        rows.keep_up()
        eventually(rows.is_settled, "the rows are kept")
        at_rest(rows)
        assert len(keep.threads) == number


def test_one_that_is_registered_meanwhile_is_not_taken_for_kept(
    register: Register, later: Ticks, hanging: Keep
) -> None:
    rows = recurring(hanging)
    rows.keep_up()
    eventually(lambda: hanging.threads, "it is at work")
    register(lambda task: None)
    hanging.may_end.set()
    at_rest(rows)
    assert not rows.is_settled()
    later.ahead += RETRY_SECONDS
    rows.keep_up()
    eventually(rows.is_settled, "the rows are kept")
    at_rest(rows)


def test_a_trigger_that_hangs_holds_up_nobody_and_is_asked_once(
    register: Register, later: Ticks, hanging: Keep
) -> None:
    rows = recurring(hanging)
    for _ in range(10):
        rows.keep_up()  # returns
        later.ahead += 2 * RETRY_SECONDS
    eventually(lambda: hanging.threads, "it is at work")
    assert len(hanging.threads) == 1
    assert not rows.is_settled()
    hanging.may_end.set()
    at_rest(rows)
    assert rows.is_settled()


def test_an_error_of_the_database_is_said_and_tried_again_in_a_while(
    register: Register, later: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    keep = Keep()
    keep.failures = 2
    rows = recurring(keep)
    for _ in range(5):
        rows.keep_up()
        at_rest(rows)
    assert len(keep.threads) == 1
    assert caplog.text.count("server has gone away") == 1
    for _ in range(2):
        assert not rows.is_settled()
        later.ahead += 2 * RETRY_SECONDS
        rows.keep_up()
        at_rest(rows)
    assert rows.is_settled()


def test_it_leaves_no_connection_open(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []
    monkeypatch.setattr(module, "close_connections", lambda: closed.append(current_thread().name))
    rows = recurring(Keep())
    rows.keep_up()
    at_rest(rows)
    assert closed == [f"django_tasks-schedules-{USING}"]
