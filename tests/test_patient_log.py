"""Lines of a thread that must go on, whatever the handlers of the log do."""

import threading
from collections.abc import Iterator
from threading import Event

import pytest

from django_tasks.logs import patient as patient_log
from django_tasks.logs.patient import PatientLog
from tests.waiting import DEADLINE, eventually


@pytest.fixture
def released() -> Iterator[Event]:
    """The event that a hanging line waits for."""
    released = Event()
    yield released
    released.set()


def test_lines_are_written_in_their_order_and_no_thread_is_left() -> None:
    log, written = PatientLog(), list[int]()
    before = threading.active_count()
    for number in range(100):
        log.post(lambda number=number: written.append(number))  # type: ignore[misc]
        assert written[-1] == number
        assert threading.active_count() == before
    assert written == list(range(100))
    assert not log.hangs()


@pytest.mark.parametrize("error", [OSError, SystemExit])
def test_a_line_that_fails_keeps_no_other_from_being_written(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    log, written = PatientLog(), list[str]()
    log.post(fail)
    log.post(lambda: written.append("next"))
    assert written == ["next"]


def test_a_line_that_hangs_is_waited_for_no_longer_than_its_time_and_nothing_is_lost(
    released: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang() -> None:
        released.wait(DEADLINE)

    monkeypatch.setattr(patient_log, "LONGEST_WAIT", 0.05)
    log, written = PatientLog(), list[str]()
    log.post(hang)
    log.post(lambda: written.append("next"))
    assert (log.hangs(), written) == (True, [])
    released.set()
    eventually(lambda: not log.hangs(), "it goes on")
    assert written == ["next"]
