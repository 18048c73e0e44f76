"""The order of the threads of this process that write to one SQLite file.

SQLite lets one writer in at a time. Another one sleeps and looks again, up to 0.1 s at a time, and
whichever looks first is next: eight threads with atomic runs and a poller that claims for them do
little else. So they wait for each other here, where the one that leaves wakes the next.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from django.db import connections

from django_tasks.host import forks

_turns: defaultdict[str, Any] = defaultdict(RLock)


@forks.in_child
def _renew() -> None:
    """Make locks that no thread of the parent holds."""
    _turns.clear()


@contextmanager
def turn(using: str) -> Iterator[None]:
    """Write when the others of this process have written, on SQLite.

    After the time-out of the connection it goes on all the same, to be told "database is locked":
    a handler may wait for a thread of its own that writes.
    """
    connection: Any = connections[using]
    if connection.vendor != "sqlite":
        yield
        return
    lock = _turns[using]
    seconds = connection.settings_dict.get("OPTIONS", {}).get("timeout", 5.0)
    has_turn = lock.acquire(timeout=seconds)
    try:
        yield
    finally:
        if has_turn:
            lock.release()
