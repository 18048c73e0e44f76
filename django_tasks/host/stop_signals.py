"""Signals of the operating system. Their handlers only take a note."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from django_tasks.host import forks
from django_tasks.host.clocks import ticks
from django_tasks.host.self_pipe import readable

# Windows, where web processes and tests import this, has no SIGHUP.
STOPS = (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM))

# Signals that follow the first stop within this time are the same stop once more: a process manager
# that signals a process and its group, a wrapper that passes on what the terminal has sent already.
SAME_STOP_SECONDS = 1.0


class Notes:
    """SIGTERM, SIGINT and SIGHUP as they came; SIGHUP is left alone under ``nohup``.

    The handler writes nothing and locks nothing: Python puts the signal's number into a pipe, on
    which ``wait`` sleeps. (An Event set from a handler can deadlock with its own wait.)
    """

    def __init__(self, stops: tuple[int, ...] = STOPS) -> None:
        """Take notes from now on, of ``stops``; other stop signals do nothing. See ``taken``."""
        self._stops = stops
        self._first: float | None = None
        # Tells that a stop signal has come after another one. Set in ``wait``.
        self.is_second = False
        self._pipe: tuple[int, ...] = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._before = {
            number: signal.signal(number, _noted) for number in STOPS if _is_heeded(number)
        }

    @classmethod
    @contextmanager
    def taken(cls, *, is_child: bool = False) -> Iterator["Notes"]:
        """Take notes of signals for the time of a ``with``; for the main thread only.

        A child does not listen to SIGINT and SIGHUP: Ctrl-C, and the end of a terminal, reach the
        whole process group, and its supervisor passes the wish on as SIGTERM.
        (It does not *ignore* them: a program that a handler starts would inherit that.)
        """
        notes = cls((signal.SIGTERM,) if is_child else STOPS)
        _taken.append(notes)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        try:
            yield notes
        finally:
            if notes in _taken:  # not in the child of a fork, which has given them back already
                _taken.remove(notes)
                notes.give_back(notes._wakeup)

    def wait(self, seconds: float) -> bool:
        """Sleep for ``seconds`` or until something happens; True if that was another stop signal.

        Signals within a second of the first one are not another.
        """
        noted = os.read(self._pipe[0], 100) if readable([self._pipe[0]], seconds) else b""
        return any(number in self._stops for number in noted) and self._is_another()

    def _is_another(self) -> bool:
        tick = ticks()
        if self._first is None:
            self._first = tick
            return True
        self.is_second = tick - self._first >= SAME_STOP_SECONDS
        return self.is_second

    def wake(self) -> None:
        """End a ``wait`` from another thread."""
        with suppress(OSError, IndexError):  # the pipe is full, or closed already: nobody waits
            os.write(self._pipe[1], b"\0")

    def give_back(self, wakeup: int) -> None:
        """Handle signals as before, and have ``wakeup`` written to, a file descriptor or -1."""
        for number, handler in self._before.items():
            # None stands for a handler that was not made in Python: it cannot be set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(wakeup)
        ends, self._pipe = self._pipe, ()
        for end in ends:
            os.close(end)


# The notes that this process takes; the last ones are in force.
_taken: list[Notes] = []


@contextmanager
def held_back() -> Iterator[None]:
    """Hold stop signals back: a forked child must not take its supervisor's notes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_heeded(number: int) -> bool:
    """Tell if a stop signal is one here: ``nohup`` has a process ignore SIGHUP."""
    return number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN


def _noted(number: int, frame: FrameType | None) -> None:
    """The wake-up pipe has the number already."""


# Forks in a handler


class _Forking(threading.local):
    """The signals that a thread had blocked before it began to fork; None if it does not."""

    mask: Any = None


_forking = _Forking()


def _before_fork() -> None:
    """Hold stop signals back until the child has forgotten our notes: it has our pipe, too."""
    if _taken:
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def _after_fork() -> None:
    mask, _forking.mask = _forking.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@forks.in_child
def _forget_notes() -> None:
    """Have signals to the child of a fork do there what they did before we took notes.

    With our handler it could not be ended by them, and the pipe is the parent's as well: a SIGTERM
    to the child would stop the worker.
    """
    while _taken:
        _taken.pop().give_back(-1)
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)
