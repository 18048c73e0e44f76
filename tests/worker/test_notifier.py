"""Other people's code gets its messages in a thread of its own, and fills no memory."""

from collections.abc import Iterator
from functools import partial
from threading import Event, current_thread
from typing import Any

import pytest

from django_tasks import signals
from django_tasks.worker import notifier as module
from django_tasks.worker.notifier import Notifier
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import heard


@pytest.fixture
def notifier() -> Iterator[Notifier]:
    notifier = Notifier("default")
    notifier.start()
    yield notifier
    assert notifier.close(DEADLINE)


class Slow:
    """A receiver that is in the first message until the test lets it go."""

    def __init__(self) -> None:
        self.entered, self.let_go = Event(), Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.let_go.wait(DEADLINE)


@pytest.fixture
def slow(notifier: Notifier) -> Iterator[Slow]:
    slow = Slow()
    notifier.post(slow)
    assert slow.entered.wait(DEADLINE)
    yield slow
    slow.let_go.set()


def test_messages_are_delivered_in_their_order_and_in_one_other_thread(notifier: Notifier) -> None:
    order: list[int] = []
    threads: set[str] = set()

    def deliver(number: int) -> None:
        order.append(number)
        threads.add(current_thread().name)

    for number in range(500):
        notifier.post(partial(deliver, number))
    eventually(lambda: len(order) == 500, "500 messages")
    assert order == sorted(order)
    assert threads == {"django_tasks-notifier-default"}


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_message_that_raises_is_the_last_of_nothing(
    notifier: Notifier, error: type[BaseException]
) -> None:
    delivered = Event()

    def fail() -> None:
        raise error

    notifier.post(fail)
    notifier.post(delivered.set)
    assert delivered.wait(DEADLINE)


def test_what_finds_no_room_is_dropped_counted_and_told_once_a_minute(
    notifier: Notifier,
    slow: Slow,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "CAPACITY", 3)
    delivered: list[int] = []
    for number in range(10):
        notifier.post(partial(delivered.append, number))
    slow.let_go.set()
    eventually(lambda: len(delivered) == 3, "what had room")
    assert delivered == [0, 1, 2]
    sentence = "7 signals and log lines of the worker on default could not be delivered"
    eventually(lambda: sentence in caplog.text, "the word about the others")
    again = Slow()
    notifier.post(again)
    assert again.entered.wait(DEADLINE)
    for number in range(5):
        notifier.post(partial(delivered.append, number))
    again.let_go.set()
    eventually(lambda: len(delivered) == 6, "what had room again")
    assert notifier.close(DEADLINE)
    assert caplog.text.count("could not be delivered") == 1


def test_a_worker_that_ends_delivers_what_waits(notifier: Notifier, slow: Slow) -> None:
    delivered: list[int] = []
    notifier.post(partial(delivered.append, 1))
    slow.let_go.set()
    assert notifier.close(DEADLINE)
    assert delivered == [1]


def test_and_does_not_wait_for_a_receiver_that_hangs(notifier: Notifier, slow: Slow) -> None:
    assert not notifier.close(0.05)


def test_where_nobody_listens_nothing_is_posted(
    notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[Any] = []
    monkeypatch.setattr(notifier, "post", posted.append)
    notifier.tell(signals.task_missed, None, task="x")
    assert posted == []
    with heard(signals.task_missed):
        notifier.tell(signals.task_missed, None, task="x")
    assert len(posted) == 1
