"""A doorbell inside one process: an added task rings it, and sleeping pollers wake up.

It promises nothing: a poller that missed it finds the task at its next poll.
"""

from collections.abc import Callable
from threading import Lock

from django_tasks.host import forks
from django_tasks.host.interrupts import uninterrupted

# Called with whether the tasks were due for a while already: see ``wake``.
Wake = Callable[[bool], None]

_listeners: dict[str, list[Wake]] = {}
_lock = Lock()


@forks.in_child
def _forget() -> None:
    global _lock
    _lock = Lock()
    _listeners.clear()


def listen(alias: str, wake: Wake) -> None:
    """Call ``wake`` whenever a task was added to the database ``alias``."""
    with _lock:
        _listeners[alias] = [*_listeners.get(alias, []), wake]


def stop_listening(alias: str, wake: Wake) -> None:
    with _lock:
        _listeners[alias] = [other for other in _listeners.get(alias, []) if other != wake]


@uninterrupted  # by the timeout of a run that adds a task: pollers have locks
def ring(alias: str, *, overdue: bool) -> None:
    for wake in _listeners.get(alias, ()):
        wake(overdue)
