"""An exception from another thread comes into what it is meant for, and nowhere else."""

import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from django_tasks.host import interrupts
from django_tasks.host.interrupts import Interrupt, uninterrupted
from tests.waiting import DEADLINE, eventually


@pytest.fixture(autouse=True)
def _without_callbacks_of_gc() -> Iterator[None]:
    """Python swallows what comes into one, as it does in a destructor."""
    gc.disable()
    yield
    gc.enable()


class Enough(Exception):
    """The exception that is to come."""


class Other(Exception):
    """An exception of the function's own."""


def nothing() -> None: ...


def answers(_: Any) -> int:
    return 42


def raises(_: Any) -> int:
    raise Other


def swallows(_: Any) -> int:
    try:
        return steps(42)
    except Enough:
        return 42


def steps(number: int) -> int:
    for _ in range(3):
        number = max(number, 0)
    return number


class Section:
    """A section of two steps, both of which it must have done or none."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    @uninterrupted
    def _section(self) -> None:
        self.begun += 1
        steps(1)
        self.ended += 1

    def __call__(self, _: Any) -> int:
        self._section()
        return 42


# The other thread's half, at each single step


class Firing:
    """Fires an interrupt before the step of a number, of those of ``run`` and what it calls.

    Steps are bytecodes, and lines: Python 3.12 tells of lines alone.
    """

    def __init__(self, place: int) -> None:
        self._left = place
        self.has_come = False
        self.interrupt: Interrupt | None = None

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in (interrupts.__file__, __file__):
            return None
        frame.f_trace_opcodes = True
        if event in ("opcode", "line") and self.interrupt is not None and not self.has_come:
            self._left -= 1
            if self._left < 0:
                self.has_come = True
                self.interrupt.fire()  # and it is met here: raised from this very step
                steps(1)
        return self.trace


@contextmanager
def traced(trace: Any) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def fired_at(place: int, function: Callable[[Any], int]) -> tuple[Any, BaseException | None, bool]:
    """The answer, the error, and if there was a step of that number."""
    firing, interrupt = Firing(place), Interrupt(Enough)

    def begin() -> None:
        firing.interrupt = interrupt

    with traced(firing.trace):
        answer, error = interrupt.run(begin, function, None)
        firing.interrupt = None
    # An exception that was left with this thread would come now.
    steps(42)
    assert interrupts._thread.interrupt is None
    assert interrupt.fire() is False
    return answer, error, firing.has_come


@pytest.mark.parametrize("function", [answers, raises, swallows])
def test_whatever_moment_it_comes_at_it_does_not_leave_the_call(
    function: Callable[[Any], int],
) -> None:
    own = Other if function is raises else type(None)
    met, place, has_come = 0, 0, True
    while has_come:
        answer, error, has_come = fired_at(place, function)
        assert type(error) in (Enough, own)
        assert answer == 42 or error is not None
        met += isinstance(error, Enough)
        place += 1
    assert place > 10
    assert met > 0


def test_whatever_moment_it_comes_at_a_section_is_done_whole_or_not_at_all() -> None:
    place, has_come, done = 0, True, set()
    while has_come:
        section = Section()
        _, error, has_come = fired_at(place, section)
        assert section.begun == section.ended
        done.add((section.ended, type(error)))
        place += 1
    assert {(0, Enough), (1, Enough), (1, type(None))} <= done


# Another thread


def test_it_comes_into_what_another_thread_is_doing() -> None:
    interrupt_of: list[Interrupt] = []
    ended: list[Any] = []

    def spin(_: Any) -> None:
        while True:
            steps(1)

    def main() -> None:
        interrupt = Interrupt(Enough)
        ended.append(interrupt.run(lambda: interrupt_of.append(interrupt), spin, None))

    thread = threading.Thread(target=main)
    thread.start()
    eventually(lambda: interrupt_of, "it runs")
    assert interrupt_of[0].fire()
    thread.join(DEADLINE)
    ((_, error),) = ended
    assert isinstance(error, Enough)
    assert interrupt_of[0].has_fired
    assert not interrupt_of[0].fire()


def test_the_thread_waits_for_another_one_that_is_about_to_raise() -> None:
    interrupt = Interrupt(Enough)
    ended: list[Any] = []

    def take(_: Any) -> None:
        interrupt._has[0] = object()

    def main() -> None:
        interrupt._ident = threading.get_ident()
        ended.append(interrupt.run(nothing, take, None))

    thread = threading.Thread(target=main)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    interrupts._leave_with(interrupt._ident, Enough)
    interrupt._is_raised = True
    thread.join(DEADLINE)
    assert ended == [(None, None)]


def test_in_the_child_of_a_fork_it_waits_for_no_thread_of_the_parent() -> None:
    interrupt = Interrupt(Enough)

    def fork(_: Any) -> int:
        interrupt._has[0] = object()  # the other thread was just about to raise
        interrupts._forked()  # and is not here
        return 42

    assert interrupt.run(nothing, fork, None) == (42, None)
    assert not interrupt.has_fired


# Threads and processes


class Spy:
    """In place of the event that a new thread sets when it runs."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._runs = threading.Event()
        self.could: list[bool] = []

    def set(self) -> None:
        self._runs.set()

    def wait(self) -> None:
        self.could.append(self._interrupt.fire())
        assert self._runs.wait(DEADLINE)

    def is_set(self) -> bool:
        return bool(self.could)


def test_while_a_thread_starts_another_one_it_cannot_be_fired() -> None:
    """Up to Python 3.11 it might come into that one, before it is heard to run."""
    interrupt = Interrupt(Enough)
    spy = Spy(interrupt)

    def function(_: Any) -> int:
        thread = threading.Thread(target=nothing)
        thread._started = spy  # type: ignore[attr-defined]
        thread.start()
        assert interrupt.fire()
        return steps(42)

    _, error = interrupt.run(nothing, function, None)
    assert isinstance(error, Enough)
    assert spy.could == [False]


@pytest.mark.parametrize("kind", [subprocess.Popen, BaseProcess])
def test_nor_while_it_starts_a_process(kind: Any) -> None:
    interrupt = Interrupt(Enough)
    could: list[bool] = []

    class Process(kind):  # type: ignore[misc]
        def _execute_child(self, *args: Any) -> None:
            could.append(interrupt.fire())
            self._child_created = False

        def _Popen(self, _: Any) -> Any:
            could.append(interrupt.fire())
            return SimpleNamespace(sentinel=None, poll=lambda: 0)

    def function(_: Any) -> None:
        if kind is BaseProcess:
            Process().start()
        else:
            Process(["true"])

    assert interrupt.run(nothing, function, None) == (None, None)
    assert could == [False]


# Forks


class Forking:
    """Forks in a run, and fires its interrupt at the first step of functions with these names."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.interrupt = Interrupt(Enough)
        self.fired: list[bool] = []

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and frame.f_code.co_name in self._names:
            self.fired.append(self.interrupt.fire())  # and it is met here, if it may come
            steps(1)

    def __call__(self, _: Any) -> int:
        with traced(self.trace):
            if (child := os.fork()) == 0:
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        steps(1)
        return 42


@pytest.fixture
def swallowed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The exceptions that Python has swallowed."""
    interrupts.guard_forks()
    found: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: found.append(each.exc_type))
    return found


def is_free(lock: Any) -> bool:
    """Tell if another thread can have a lock."""
    free: list[bool] = []

    def take() -> None:
        if lock.acquire(timeout=DEADLINE):
            lock.release()
            free.append(True)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(free)


def test_it_does_not_come_into_the_hooks_of_a_fork(swallowed: list[Any]) -> None:
    """Those of ``logging`` have a step of Python between the two halves, up to Python 3.12."""
    fork = Forking("_acquireLock", "_releaseLock")
    assert fork.interrupt.run(nothing, fork, None) == (42, None)
    assert not any(fork.fired)
    assert swallowed == []
    assert is_free(logging._lock)  # type: ignore[attr-defined]
    assert fork.interrupt.run(nothing, answers, None) == (42, None)


def test_after_a_fork_it_may_come(swallowed: list[Any]) -> None:
    fork = Forking()

    def function(_: Any) -> int:
        fork(None)
        assert fork.interrupt.fire()
        return steps(42)

    _, error = fork.interrupt.run(nothing, function, None)
    assert isinstance(error, Enough)


def test_within_a_section_a_fork_does_not_let_it_come(swallowed: list[Any]) -> None:
    fork = Forking()
    could: list[bool] = []

    @uninterrupted
    def section() -> None:
        fork(None)
        could.append(fork.interrupt.fire())

    assert fork.interrupt.run(nothing, lambda _: section(), None) == (None, None)
    assert could == [False]


def test_if_a_hook_has_swallowed_it_it_can_be_fired_again(swallowed: list[Any]) -> None:
    fork = Forking("_before_fork")
    could: list[bool] = []

    def function(_: Any) -> int:
        fork(None)
        could.append(fork.interrupt.has_fired)
        fork.interrupt.fire()
        return steps(42)

    _, error = fork.interrupt.run(nothing, function, None)
    assert fork.fired == []  # it came in the middle of that line
    assert swallowed == [Enough]
    assert could == [False]
    assert isinstance(error, Enough)


def test_one_that_was_swallowed_is_waited_for_until_it_is_said() -> None:
    interrupt = Interrupt(Enough)
    interrupt._has[0] = object()  # left with its thread, and swallowed there at once
    thread = threading.Thread(target=interrupt.come_again)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    interrupt._is_raised = True
    thread.join(DEADLINE)
    assert not interrupt.has_fired
    assert interrupt._has == {}


def test_one_that_was_met_before_a_fork_comes_no_second_time(swallowed: list[Any]) -> None:
    fork = Forking()

    def function(_: Any) -> int:
        try:
            fork.interrupt.fire()
            steps(1)
        except Enough:
            fork(None)
        assert not fork.interrupt.fire()
        return 42

    assert fork.interrupt.run(nothing, function, None) == (42, None)


# Sections


def test_within_a_section_it_cannot_be_fired_and_afterwards_it_can() -> None:
    interrupt = Interrupt(Enough)
    could: list[bool] = []

    @uninterrupted
    def inner() -> None:
        could.append(interrupt.fire())

    @uninterrupted
    def outer() -> None:
        inner()
        could.append(interrupt.fire())

    def function(_: Any) -> None:
        outer()
        could.append(interrupt.fire())
        steps(1)

    _, error = interrupt.run(nothing, function, None)
    assert isinstance(error, Enough)
    assert could == [False, False] or could == [False, False, True]


def test_without_an_interrupt_a_section_is_just_a_function() -> None:
    section = Section()
    assert section(None) == 42
    assert section.ended == 1


@pytest.mark.parametrize("has_gil", [True, False])
def test_there_are_none_in_a_python_without_the_gil(
    monkeypatch: pytest.MonkeyPatch, has_gil: bool
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: has_gil, raising=False)
    interrupts._set_async_exc.cache_clear()
    try:
        assert interrupts.are_possible() is has_gil
    finally:
        monkeypatch.undo()
        interrupts._set_async_exc.cache_clear()


def test_nor_where_ctypes_cannot_call_python(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    monkeypatch.delattr(ctypes, "pythonapi")
    interrupts._set_async_exc.cache_clear()
    try:
        assert not interrupts.are_possible()
    finally:
        monkeypatch.undo()
        interrupts._set_async_exc.cache_clear()
