"""Waits for descriptors that another thread can end.

With ``poll``: ``select`` refuses descriptors from 1024 on, which a busy web process has.
"""

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock


def readable(descriptors: Iterable[int], seconds: float | None = None) -> set[int]:
    """Wait until one of ``descriptors`` can be read, or for ``seconds``; returns those that can.

    One that is broken counts as readable: reading it tells what is wrong. None is for ever.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    milliseconds = None if seconds is None else max(0.0, seconds * 1000)
    return {descriptor for descriptor, _ in poll.poll(milliseconds)}


class SelfPipe:
    """A flag that any thread can set, and of which a wait for descriptors takes note.

    Once set, it stays so. ``close`` it in the thread that waits, or when none does.
    """

    def __init__(self) -> None:
        """Raises OSError when the process has no descriptors left."""
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._lock = Lock()
        self._closed = False

    def wait(self, *descriptors: int, seconds: float | None = None) -> bool:
        """Wait for the flag, for one of ``descriptors`` or for ``seconds``; tell if it was set."""
        return self._read_end in readable([self._read_end, *descriptors], seconds)

    def set(self) -> None:
        # The lock, because the number of a closed descriptor is soon somebody else's.
        with self._lock, suppress(OSError):  # full: it is set already
            if not self._closed:
                os.write(self._write_end, b"\0")

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._read_end)
                os.close(self._write_end)
