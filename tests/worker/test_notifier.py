"""Messages to receivers and log handlers: in order, in another thread, and nobody waits."""

from collections.abc import Iterator
from decimal import getcontext
from functools import partial
from threading import Event, current_thread
from typing import Any

import pytest
from django.db import transaction
from django.dispatch import Signal
from django.utils.translation import activate, get_language

from django_tasks.models import Task
from django_tasks.worker import notifier as module
from django_tasks.worker.notifier import SAY_DROPPED_SECONDS, Notifier
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import USING

NAME = f"django_tasks-notifier-{USING}"


@pytest.fixture
def notifier() -> Iterator[Notifier]:
    notifier = Notifier(USING)
    notifier.start()
    yield notifier
    assert notifier.close(DEADLINE)


@pytest.fixture
def gate(notifier: Notifier) -> Iterator[Event]:
    """The notifier is busy with a message until this is set."""
    gate, inside = Event(), Event()

    def wait() -> None:
        inside.set()
        assert gate.wait(DEADLINE)

    notifier.post(wait)
    assert inside.wait(DEADLINE)
    yield gate
    gate.set()


def test_messages_are_delivered_in_order_in_one_other_thread(notifier: Notifier) -> None:
    seen: list[tuple[int, str]] = []

    def note(number: int) -> None:
        seen.append((number, current_thread().name))

    for number in range(100):
        notifier.post(partial(note, number))
    eventually(lambda: len(seen) == 100, "100 messages")
    assert seen == [(number, NAME) for number in range(100)]


def test_a_post_waits_for_no_receiver(notifier: Notifier, gate: Event) -> None:
    seen: list[int] = []
    notifier.post(lambda: seen.append(1))
    assert seen == []
    gate.set()
    eventually(lambda: seen, "the message that waited")


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_message_that_raises_harms_none_after_it(
    notifier: Notifier, error: type[BaseException]
) -> None:
    seen: list[int] = []

    def fail() -> None:
        raise error

    notifier.post(fail)
    notifier.post(lambda: seen.append(1))
    eventually(lambda: seen, "the message after it")


def test_messages_without_room_are_dropped_counted_and_said_once(
    notifier: Notifier,
    gate: Event,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "CAPACITY", 3)
    seen: list[int] = []
    for number in range(8):
        notifier.post(partial(seen.append, number))
    gate.set()
    eventually(lambda: len(seen) == 3, "those that had room")
    assert notifier.close(DEADLINE)
    assert seen == [0, 1, 2]
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith("5 signals and log lines")


def test_what_is_dropped_is_said_again_after_a_minute_and_not_sooner(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(USING)  # not started: this thread does its work
    monkeypatch.setattr(module, "CAPACITY", 0)
    for tick, lines in ((0.0, 1), (SAY_DROPPED_SECONDS - 0.001, 1), (SAY_DROPPED_SECONDS, 2)):
        monkeypatch.setattr(module, "ticks", lambda now=tick: now)
        notifier.post(lambda: None)
        notifier._say_dropped()
        assert len(caplog.messages) == lines
    assert [message.split()[0] for message in caplog.messages] == ["1", "2"]


def test_a_signal_that_nobody_hears_costs_no_message(notifier: Notifier, gate: Event) -> None:
    notifier.tell(Signal(), None, using=USING)
    assert not notifier._waiting


def test_a_signal_is_sent_with_its_facts_and_a_receiver_that_raises_stops_no_other(
    notifier: Notifier,
) -> None:
    signal, heard = Signal(), []

    def fails(**facts: Any) -> None:
        raise ValueError

    def hears(signal: Any, **facts: Any) -> None:
        heard.append((facts, current_thread().name))

    signal.connect(fails)
    signal.connect(hears)
    notifier.tell(signal, "sender", using=USING, count=3)
    eventually(lambda: heard, "the receiver hears it")
    assert heard == [({"sender": "sender", "using": USING, "count": 3}, NAME)]


def test_a_close_delivers_what_waits(notifier: Notifier, gate: Event) -> None:
    seen: list[int] = []
    for number in range(10):
        notifier.post(partial(seen.append, number))
    gate.set()
    assert notifier.close(DEADLINE)
    assert seen == list(range(10))


def test_a_close_waits_for_a_receiver_no_longer_than_it_may(
    notifier: Notifier, gate: Event
) -> None:
    assert not notifier.close(0.01)
    gate.set()
    assert notifier.close(DEADLINE)


def test_the_connections_of_receivers_are_closed_when_nothing_waits(
    notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(module, "close_connections", lambda: closed.append(current_thread().name))
    notifier.post(lambda: None)
    eventually(lambda: closed, "connections are closed")
    assert set(closed) == {NAME}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_is_replaced_and_what_waits_is_delivered(
    notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(module, "close_connections", _fails)
        notifier.post(lambda: seen.append(0))
        eventually(lambda: not notifier._thread.is_alive(), "the thread dies")
    notifier.post(lambda: seen.append(1))
    notifier.ensure()
    eventually(lambda: seen == [0, 1], "the message that waited for a thread")


def test_what_a_receiver_sets_for_itself_is_not_there_for_the_next_one(notifier: Notifier) -> None:
    seen: list[tuple[str, int]] = []

    def receive() -> None:
        seen.append((get_language(), getcontext().prec))
        activate("de")
        getcontext().prec = 3

    for _ in range(2):
        notifier.post(receive)
    eventually(lambda: len(seen) == 2, "two messages")
    assert seen[0] == seen[1]


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_one_leaves_open_breaks_no_later_one(notifier: Notifier) -> None:
    seen: list[int] = []

    def receive(number: int) -> None:
        if number == 1:
            transaction.atomic().__enter__()
        Task.objects.count()
        seen.append(number)

    for number in (1, 2, 3):
        notifier.post(partial(receive, number))
        eventually(lambda: number in seen, "it is heard")  # noqa: B023 - at once


def _fails() -> None:
    raise MemoryError
