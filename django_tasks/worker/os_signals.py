"""Signals of the operating system. Their handlers only take a note."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from django_tasks.selfpipe import readable

STOPS = (signal.SIGTERM, signal.SIGINT)


class Notes:
    """SIGTERM and SIGINT as they came.

    The handler writes nothing and locks nothing: Python puts the signal's number into a pipe, on
    which ``wait`` sleeps. (An Event set from a handler can deadlock with its own wait.)
    """

    def __init__(self, read_end: int, write_end: int) -> None:
        self._read_end = read_end
        self._write_end = write_end

    @classmethod
    @contextmanager
    def taken(cls, *, is_child: bool = False) -> Iterator["Notes"]:
        """Take notes of signals for the time of a ``with``; for the main thread only.

        A child does not listen to SIGINT: Ctrl-C reaches the whole process group, and its
        supervisor passes the wish on as SIGTERM.
        """
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        os.set_blocking(write_end, False)
        wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        before = {number: signal.signal(number, _noted) for number in STOPS}
        if is_child:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        try:
            yield cls(read_end, write_end)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            os.close(read_end)
            os.close(write_end)

    def wait(self, seconds: float) -> int:
        """Sleep for ``seconds`` or until a signal; returns how many stop signals came."""
        ready = readable([self._read_end], seconds)
        noted = os.read(self._read_end, 100) if ready else b""
        return sum(number in STOPS for number in noted)

    def wake(self) -> None:
        """End a ``wait`` from another thread."""
        with suppress(OSError):  # the pipe is full, or closed already: nobody waits
            os.write(self._write_end, b"\0")


@contextmanager
def held_back() -> Iterator[None]:
    """Hold stop signals back: a forked child must not take its supervisor's notes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _noted(number: int, frame: FrameType | None) -> None:
    """The wake-up pipe has the number already."""
