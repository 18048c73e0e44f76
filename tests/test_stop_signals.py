"""Notes of signals: which of them count, and what is left of them."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from django_tasks.host import stop_signals
from django_tasks.host.stop_signals import STOPS, Notes
from tests.waiting import DEADLINE


class Ticks:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    ticks = Ticks()
    monkeypatch.setattr(stop_signals, "ticks", ticks)
    return ticks


@pytest.fixture(autouse=True)
def _terminal() -> Iterator[None]:
    """Have SIGHUP do what it does in a terminal, also where the tests run under ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def send(number: signal.Signals = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


def test_the_first_stop_counts_and_those_within_a_second_are_the_same(ticks: Ticks) -> None:
    with Notes.taken() as notes:
        send()
        send()
        assert notes.wait(DEADLINE)
        for later in (0.0, 0.5, 0.99):
            ticks.now = 1000.0 + later
            send(signal.SIGINT)
            assert not notes.wait(DEADLINE)
        ticks.now = 1001.0
        assert not notes.wait(0)
        send()
        assert notes.wait(DEADLINE)


@pytest.mark.parametrize("number", STOPS)
def test_either_signal_is_a_stop(number: signal.Signals) -> None:
    with Notes.taken() as notes:
        send(number)
        assert notes.wait(DEADLINE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_child_stops_for_its_supervisor_alone_and_does_not_have_others_ignored(
    number: signal.Signals,
) -> None:
    with Notes.taken(is_child=True) as notes:
        assert signal.getsignal(number) is not signal.SIG_IGN
        send(number)
        assert not notes.wait(0.05)
        send(signal.SIGTERM)
        assert notes.wait(DEADLINE)


def test_the_end_of_a_terminal_is_no_stop_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Notes.taken() as notes:
        send(signal.SIGHUP)
        assert not notes.wait(0.05)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_wake_up_is_no_stop() -> None:
    with Notes.taken() as notes:
        notes.wake()
        assert not notes.wait(DEADLINE)
    notes.wake()


def test_afterwards_signals_do_what_they_did_before() -> None:
    heard: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        handlers = [signal.getsignal(number) for number in STOPS]
        with Notes.taken():
            assert [signal.getsignal(number) for number in STOPS] != handlers
        assert [signal.getsignal(number) for number in STOPS] == handlers
        assert signal.set_wakeup_fd(-1) == -1
        send()
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, former)


def in_a_child(function: Callable[[], object]) -> int:
    """The exit code of the child of a fork: 0 if the function is true there, -15 for SIGTERM."""
    pid = os.fork()
    if not pid:
        code = 2
        try:
            code = 0 if function() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_is_rid_of_all_notes_even_of_nested_ones() -> None:
    before = [signal.getsignal(number) for number in STOPS]
    descriptors = len(os.listdir("/proc/self/fd"))

    def looks_as_before() -> bool:
        handlers = [signal.getsignal(number) for number in STOPS]
        return (
            handlers == before
            and signal.set_wakeup_fd(-1) == -1
            and len(os.listdir("/proc/self/fd")) == descriptors
            and not signal.pthread_sigmask(signal.SIG_BLOCK, ())
        )

    with Notes.taken(), Notes.taken(is_child=True):
        assert in_a_child(looks_as_before) == 0
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_signal_to_a_child_is_not_noted_by_its_parent() -> None:
    with Notes.taken() as notes:
        assert in_a_child(send) == -signal.SIGTERM
        assert not notes.wait(0.05)
        send()
        assert notes.wait(DEADLINE)


def test_a_child_that_unwinds_its_stack_harms_no_descriptor() -> None:
    def reuses_them() -> bool:
        ends = os.pipe()  # the numbers of the notes' own pipe
        notes_manager.__exit__(None, None, None)
        os.write(ends[1], b"x")
        return os.read(ends[0], 1) == b"x"

    notes_manager = Notes.taken()
    notes_manager.__enter__()
    try:
        assert in_a_child(reuses_them) == 0
    finally:
        notes_manager.__exit__(None, None, None)
