"""PostgreSQL's NOTIFY: tells workers in other processes that a task was added for about now.

A hint on top of polling and never instead of it. It is part of the adder's transaction, so it
arrives with the commit or not at all; a worker that misses it finds the task at its next poll.
"""

import os
import select
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import Error, connections

from django_tasks.conf import options
from django_tasks.store.dialects import dialect_of

CHANNEL = "django_tasks"


def notify(first: datetime, now: datetime, *, using: str) -> None:
    """Wake the workers of other processes if a task is due before they would look by themselves.

    Tasks further in the future cost nothing: all sleepers poll again before they are due.
    Outside a transaction the task is stored already, and a hint that fails must not say otherwise.
    """
    dialect = dialect_of(using)
    if dialect.notifies and first <= now + timedelta(seconds=options().poll_interval):
        with nullcontext() if dialect.connection.in_atomic_block else suppress(Error):
            dialect.execute(f"NOTIFY {CHANNEL}")


class Listener:
    """Calls ``wake`` for every hint, from the thread that calls ``listen``."""

    def __init__(self, using: str, wake: Callable[[], None]) -> None:
        self._using = using
        self._wake = wake
        self._stopped, self._stop = os.pipe()

    def is_useful(self) -> bool:
        """Whether this database sends hints. Only psycopg 3 hands them over as they come."""
        connection: Any = connections[self._using]
        return dialect_of(self._using).notifies and hasattr(
            connection.Database.Connection, "notifies"
        )

    def listen(self) -> None:
        """Listen until ``stop``. Database errors pass; call again to go on."""
        # A connection of its own: what waits for hints cannot run statements, and one that a
        # pool owns must not listen on behalf of its next user.
        connection: Any = connections.create_connection(self._using)
        connection.settings_dict = _unpooled(connection.settings_dict)
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            self._wake()  # what was added before we listened
            self._relay(connection.connection)
        finally:
            connection.close()

    def stop(self) -> None:
        """End ``listen``, from any thread."""
        with suppress(OSError):
            os.write(self._stop, b"\0")

    def close(self) -> None:
        os.close(self._stopped)
        os.close(self._stop)

    def _relay(self, raw: Any) -> None:
        while True:
            ready, _, _ = select.select([raw.fileno(), self._stopped], [], [])
            if self._stopped in ready:
                return
            # Many at once are one reason to look. A connection that was closed raises here.
            if list(raw.notifies(timeout=0)):
                self._wake()


def _unpooled(settings: dict[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in settings["OPTIONS"].items() if key != "pool"}
    return {**settings, "OPTIONS": options}
