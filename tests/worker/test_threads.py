"""Threads that are replaced when an exception has ended them."""

from threading import Event, current_thread
from typing import Any

import pytest

from django_tasks.worker.threads import LastingThread
from tests.waiting import DEADLINE, eventually

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # these threads die on purpose
)


class Main:
    """Ends by an exception as often as it is told to, then waits until the test lets it return."""

    def __init__(self, deaths: int = 0) -> None:
        self.deaths = deaths
        self.names: list[str] = []
        self.may_return = Event()

    def __call__(self) -> None:
        self.names.append(current_thread().name)
        if len(self.names) <= self.deaths:
            raise SystemExit("a defect")
        assert self.may_return.wait(DEADLINE)


def ended(thread: LastingThread) -> None:
    eventually(lambda: not thread.is_alive(), "the thread ends")


def test_one_that_died_is_replaced_and_said(caplog: pytest.LogCaptureFixture) -> None:
    main = Main(deaths=2)
    thread = LastingThread("django_tasks-lasting", main)
    thread.start()
    for _ in range(2):
        ended(thread)
        thread.ensure()
    eventually(lambda: len(main.names) == 3, "the third life")
    assert thread.is_alive()
    main.may_return.set()
    assert thread.join(DEADLINE)
    assert main.names == ["django_tasks-lasting"] * 3
    assert caplog.text.count("django_tasks-lasting") == 2


def test_one_that_lives_is_left_alone() -> None:
    main = Main()
    thread = LastingThread("django_tasks-lasting", main)
    thread.start()
    thread.ensure()
    main.may_return.set()
    assert thread.join(DEADLINE)
    assert len(main.names) == 1


def test_one_that_returned_has_done_its_work(caplog: pytest.LogCaptureFixture) -> None:
    main = Main()
    main.may_return.set()
    thread = LastingThread("django_tasks-lasting", main)
    thread.start()
    assert thread.join(DEADLINE)
    thread.ensure()
    assert (thread.is_alive(), len(main.names), caplog.text) == (False, 1, "")


def test_one_that_was_never_started_is_not_started_by_looking_after_it() -> None:
    names: list[Any] = []
    thread = LastingThread("django_tasks-lasting", lambda: names.append(1))
    thread.ensure()
    assert thread.join(0.0)
    assert names == []


def test_a_join_waits_no_longer_than_it_may() -> None:
    main = Main()
    thread = LastingThread("django_tasks-lasting", main)
    thread.start()
    assert not thread.join(0.01)
    main.may_return.set()
    assert thread.join(DEADLINE)
