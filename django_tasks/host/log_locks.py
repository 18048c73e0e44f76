"""Locks of ``logging`` that a thread has left locked.

Up to Python 3.12 ``Handler.acquire()`` is a function of Python: an interrupt that comes while it
waits for the lock is raised when the thread has it, and before the ``try`` that would release it.
The lock would be this thread's for good, and each other thread would wait for it at its next line
of the log. From Python 3.13 on there is a ``with`` statement on the lock itself, into which nothing
comes; so nothing is found there.
"""

import logging
from typing import Any


def release_owned() -> None:
    """Release those that the calling thread owns. It must not be within ``logging``."""
    _release(getattr(logging, "_lock", None))
    for reference in list(getattr(logging, "_handlerList", ())):
        handler = reference()
        if handler is not None:
            _release(handler.lock)


def _release(lock: Any) -> None:
    """Release a lock as often as this thread has taken it. Locks of a kind without owners stay."""
    is_owned = getattr(lock, "_is_owned", None)
    while is_owned is not None and is_owned():
        lock.release()
