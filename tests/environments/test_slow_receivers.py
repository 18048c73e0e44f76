"""Receivers of signals, and handlers of the log, that take longer than a lease."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.dispatch import Signal

from django_tasks import signals
from django_tasks.host.stop_signals import Notes
from django_tasks.models import WorkerRow
from django_tasks.supervisor import processes
from django_tasks.values.status import Status
from django_tasks.worker.worker import Worker
from tests.environments.workers import Held, Start, ident, wait_for_beats, wait_for_judgement
from tests.factories import a_row, a_worker, table
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, ago, handler, heard

pytestmark = pytest.mark.django_db(transaction=True)

# Heartbeats of more than a lease and a half.
LONG = 5


class Pager:
    """Somebody's alert, which takes until the test lets it go."""

    def __init__(self) -> None:
        self.called, self.answers = Event(), Event()

    def __call__(self, **_: Any) -> None:
        self.called.set()
        assert self.answers.wait(2 * DEADLINE)


class PagingHandler(logging.Handler):
    """A log handler that calls the pager."""

    def __init__(self, pager: Pager) -> None:
        super().__init__(logging.WARNING)
        self._pager = pager

    def emit(self, record: logging.LogRecord) -> None:
        self._pager()


@pytest.fixture
def pager(start_worker: Start) -> Iterator[Pager]:
    pager = Pager()
    yield pager
    pager.answers.set()


@contextmanager
def alerted(signal: Signal | None, pager: Pager) -> Iterator[None]:
    """The pager is called by a signal, or by the lines of the log."""
    logger, paging = logging.getLogger("django_tasks"), PagingHandler(pager)
    if signal is None:
        logger.addHandler(paging)
    else:
        signal.connect(pager)
    try:
        yield
    finally:
        logger.removeHandler(paging)
        if signal is not None:
            signal.disconnect(pager)


def lose_a_run(short: Held) -> None:
    """Somebody deletes the row of a task that runs."""
    table(biz_code="short").delete()
    short.open.set()


def die_with_a_task(short: Held, **fields: Any) -> None:
    """A third worker was there, and has died with a task."""
    dead = a_worker("third", lease=0.1, started=ago(100), heartbeat=ago(100))
    values = {"when": ago(), "status": Status.RUNNING, "claim_time": ago(), "biz_code": "mine"}
    a_row("1", claimed_by=dead.pk, **values | fields)


def die_for_good(short: Held) -> None:
    """The task was suspected, and this was its last attempt."""
    die_with_a_task(short, rescues=2)


def nothing(short: Held) -> None:
    """The worker that starts is reason enough."""


Cause = Callable[[Held], None]
ALERTS: list[tuple[Signal | None, Cause]] = [
    (signals.task_lost, lose_a_run),
    (signals.task_rescued, die_with_a_task),
    (signals.task_failed, die_for_good),
    (signals.worker_started, nothing),
    (None, die_with_a_task),
]


@pytest.mark.parametrize(
    ("signal", "cause"), ALERTS, ids=["lost", "rescued", "failed", "started", "log"]
)
def test_an_alert_that_takes_two_leases_stops_neither_heartbeats_nor_pollers(
    start_worker: Start,
    held: Held,
    pager: Pager,
    handlers: Any,
    signal: Signal | None,
    cause: Cause,
) -> None:
    short = Held()
    handlers(
        handler(held, "long"),
        handler(short, "short"),
        handler(lambda task: None, "mine", max_attempts=1),
    )
    with alerted(signal, pager):
        first = start_worker(lease=0.9)
        added("1", "long")
        added("1", "short")
        eventually(lambda: len(held.inside + short.inside) == 2, "both run")
        other = start_worker(lease=0.9)
        wait_for_judgement(first, other)
        before = ident(first), ident(other)
        cause(short)
        assert pager.called.wait(DEADLINE)
        wait_for_beats(LONG, first, other)
        for each in (first, other):
            eventually(partial(is_between_cycles, each), "its poller goes on")
        short.open.set()
        pager.answers.set()
        wait_for_beats(1, first, other)
    assert (ident(first), ident(other)) == before
    assert held.inside == ["long/1"]
    assert held.overlaps == short.overlaps == []


def is_between_cycles(worker: Worker) -> bool:
    return not worker._poller.seconds_in_cycle()


def test_a_stop_that_receivers_outlast_is_told_as_that_and_not_as_an_outage(
    start_worker: Start,
    pager: Pager,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with heard(signals.worker_started) as started:
        worker = start_worker(shutdown_timeout=0.1)
        eventually(lambda: started, "it is at work")
    close = worker._notifier.close
    monkeypatch.setattr(worker._notifier, "close", lambda: close(DEADLINE))
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    assert not worker.has_signed_off()
    with alerted(signals.worker_stopped, pager), Notes.taken() as notes:
        worker.stop()
        eventually(worker.has_signed_off, "its row has gone")
        assert not WorkerRow.objects.exists()
        processes._stop([worker], notes)
    assert codes == [0]
    (said,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert said.startswith("Stopped on default in order, before all receivers of signals")
