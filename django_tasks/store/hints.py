"""Telling workers in other processes that a task was added for about now.

A hint on top of polling and never instead of it: a worker that misses it finds the task at its
next poll. PostgreSQL's NOTIFY is part of the adder's transaction, so it arrives with the commit or
not at all. Elsewhere the adder rings after the commit, at the doorbells in the workers' rows.
"""

import random
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from math import inf
from typing import Any

from django.db import Error, connections

from django_tasks import doorbell, forks
from django_tasks.conf import options
from django_tasks.doorbell import Door
from django_tasks.hostclock import ticks
from django_tasks.selfpipe import SelfPipe
from django_tasks.store import workers
from django_tasks.store.dialects import Dialect, dialect_of

CHANNEL = "django_tasks"
# A session that listens is idle by nature: a server that ends idle ones is to spare it. Behind a
# pooler the session is others' as well, and stays as it is.
STAY = (
    "SELECT CASE WHEN pg_backend_pid() = %s THEN set_config('idle_session_timeout', '0', false) END"
)
# A hint for one task carries one of so many lots, and by it the workers know whom it is to wake.
# Few, because PostgreSQL sends equal hints of one transaction only once.
LOTS = 16

# How old the list of doorbells may be, and how old an empty one: the first worker is just starting.
# Whoever rings at a worker that has gone wakes nobody.
DOORS_SECONDS = 2.0
NO_DOORS_SECONDS = 0.2

_doors: dict[str, tuple[float, list[Door]]] = {}

# The child of a fork can ring at its parent, which has left itself out of its own list.
forks.in_child(_doors.clear)


def notify(first: datetime, clock: Callable[[str], datetime], tasks: int, *, using: str) -> None:
    """Wake the workers of other processes if a task is due before they would look by themselves.

    For one task a few of them: if all came, most would come for nothing, at each task. Tasks
    further in the future cost nothing: all sleepers poll again before they are due. Outside a
    transaction the task is stored already, and a hint that fails must not say otherwise.
    ``clock`` tells the time of the database ``using``.
    """
    dialect = dialect_of(using)
    if not dialect.notifies:
        return
    with nullcontext() if dialect.connection.in_atomic_block else suppress(Error):
        if _is_soon(first, clock(using)):
            _notify(dialect, str(random.randrange(LOTS)) if tasks == 1 else "")


def offer(tasks: int, *, using: str) -> None:
    """Wake them for so many due tasks that this one has given back. Raises nothing."""
    dialect = dialect_of(using)
    if not dialect.notifies:
        doorbell.ring(_known_doors(using), tasks)
        return
    with suppress(Error):
        _notify(dialect, "")


def _notify(dialect: Dialect, lot: str) -> None:
    dialect.execute("SELECT pg_notify(%s, %s)", [CHANNEL, lot])


def ring(first: datetime, clock: Callable[[str], datetime], tasks: int, *, using: str) -> None:
    """The same after the commit, where the database sends no hints. Raises nothing."""
    if dialect_of(using).notifies:
        return
    with suppress(Error):
        if _is_soon(first, clock(using)):
            doorbell.ring(_known_doors(using), tasks)


def _is_soon(first: datetime, now: datetime) -> bool:
    return first <= now + timedelta(seconds=options().poll_interval)


def _known_doors(using: str) -> list[Door]:
    """Read without a lock: at worst two threads ask at once."""
    asked, doors = _doors.get(using, (inf, []))
    tick = ticks()
    if not 0 <= tick - asked < (DOORS_SECONDS if doors else NO_DOORS_SECONDS):
        with suppress(Error):
            doors = [door for door in workers.doors(using=using) if door.can_be_reached()]
        _doors[using] = tick, doors
    return doors


def are_sent(using: str) -> bool:
    """Tell if this database sends hints. Only psycopg 3 hands them over as they come."""
    connection: Any = connections[using]
    if connection.vendor != "postgresql":
        return False
    return hasattr(getattr(connection.Database, "Connection", None), "notifies")


class Listener:
    """Hears what the database sends, in the thread that calls ``listen``."""

    def __init__(self, using: str, is_drawn: Callable[[float], bool]) -> None:
        """``is_drawn`` tells whether a lot, between 0 and 1, is for this worker."""
        self._using = using
        self._is_drawn = is_drawn
        self._stopped = SelfPipe()

    def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` for every hint that is for us until ``stop``.

        Database errors pass: call it again.
        """
        # A connection of its own: what waits for hints cannot run statements, and one that a
        # pool owns must not listen on behalf of its next user.
        connection: Any = connections.create_connection(self._using)
        connection.settings_dict = _unpooled(connection.settings_dict)
        try:
            with connection.cursor() as cursor:
                cursor.execute(STAY, [connection.connection.info.backend_pid])
                cursor.execute(f"LISTEN {CHANNEL}")
            wake()  # what was added before we listened
            self._relay(connection.connection, wake)
        finally:
            connection.close()

    def stop(self) -> None:
        """End ``listen``, from any thread."""
        self._stopped.set()

    def close(self) -> None:
        self._stopped.close()

    def _relay(self, raw: Any, wake: Callable[[], None]) -> None:
        while not self._stopped.wait(raw.fileno()):
            # Many at once are one reason to look. A connection that was closed raises here.
            lots = {hint.payload for hint in raw.notifies(timeout=0)}
            if any(map(self._is_for_us, lots)):
                wake()
                self._stopped.wait(seconds=doorbell.PAUSE_SECONDS)

    def _is_for_us(self, lot: str) -> bool:
        return not lot.isdecimal() or self._is_drawn(int(lot) / LOTS)


def _unpooled(settings: dict[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in settings["OPTIONS"].items() if key != "pool"}
    return {**settings, "OPTIONS": options}
