"""PostgreSQL's NOTIFY as a hint, and a worker's end of it.

It is part of the adder's transaction: it arrives with the commit or not at all.
"""

import random
from collections.abc import Callable
from typing import Any

from django.db import connections

from django_tasks.host.self_pipe import SelfPipe
from django_tasks.store.answers import answered, bound_answers, unbound
from django_tasks.store.dialects import dialect_of
from django_tasks.wakeup.doorbell import PAUSE_SECONDS
from django_tasks.wakeup.local import Wake

CHANNEL = "django_tasks"
# A session that listens is idle by nature: a server that ends idle ones is to spare it. Behind a
# pooler the session belongs to others as well, and stays as it is.
STAY = (
    "SELECT CASE WHEN pg_backend_pid() = %s THEN set_config('idle_session_timeout', '0', false) END"
)
# A hint for one task carries a lot, by which the workers know which of them it is to wake. There
# are few lots, because PostgreSQL sends equal hints of one transaction only once.
LOTS = 16
# The hint for tasks that were due for a while already: it is for all.
OVERDUE = "overdue"
# How long the server may take to answer on the session that listens.
ANSWER_SECONDS = 10.0
CONNECT_SECONDS = 10


def are_sent(using: str) -> bool:
    """Tell if this database sends hints. Only psycopg 3 hands them over as they come."""
    connection: Any = connections[using]
    if connection.vendor != "postgresql":
        return False
    return hasattr(getattr(connection.Database, "Connection", None), "notifies")


def notify(*, to_few: bool, overdue: bool, using: str) -> None:
    """Send a hint to a few workers or to all. Raises database errors.

    For one task a few are enough: if all came, most would come for nothing, at each task.
    """
    lot = OVERDUE if overdue else str(random.randrange(LOTS)) if to_few else ""
    dialect_of(using).execute("SELECT pg_notify(%s, %s)", [CHANNEL, lot])


class Listener:
    """Hears what the database sends, in the thread that calls ``listen``.

    Where it has heard nothing for ``ask_seconds`` it asks whether the server is still there.
    """

    ask_seconds = 30.0

    def __init__(self, using: str, is_drawn: Callable[[float], bool]) -> None:
        """``is_drawn`` tells if a lot, from 0 and below 1, is for this worker."""
        self._using = using
        self._is_drawn = is_drawn
        self._stopped = SelfPipe()

    def listen(self, wake: Wake) -> None:
        """Call ``wake`` for every hint that is for us until ``stop``.

        Raises database errors, and can be called again then.
        """
        # A connection of its own: one that waits for hints cannot run statements, and one that a
        # pool owns must not listen on behalf of its next user.
        connection: Any = connections.create_connection(self._using)
        connection.settings_dict = _unpooled(connection.settings_dict)
        bound_answers(connection, ANSWER_SECONDS)
        try:
            with answered(connection), connection.cursor() as cursor:
                cursor.execute(STAY, [connection.connection.info.backend_pid])
                cursor.execute(f"LISTEN {CHANNEL}")
            wake(True)  # for tasks that were added before we listened
            self._relay(connection, wake)
        finally:
            unbound(connection)
            connection.close()

    def stop(self) -> None:
        """End ``listen``, from any thread."""
        self._stopped.set()

    def close(self) -> None:
        self._stopped.close()

    def _relay(self, connection: Any, wake: Wake) -> None:
        raw = connection.connection
        while not self._stopped.wait(raw.fileno(), seconds=self.ask_seconds):
            # Many at once are one reason to look. A connection that was closed raises here.
            lots = {hint.payload for hint in raw.notifies(timeout=0)}
            if any(map(self._is_for_us, lots)):
                wake(OVERDUE in lots)
                self._stopped.wait(seconds=PAUSE_SECONDS)
            elif not lots:
                self._ask(connection)
                # What was sent meanwhile may be lost to the driver.
                wake(False)

    def _ask(self, connection: Any) -> None:
        """Ask for a sign of life: a server that is silent sends no hints either, for ever."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def _is_for_us(self, lot: str) -> bool:
        return not lot.isdecimal() or self._is_drawn(int(lot) / LOTS)


def _unpooled(settings: dict[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in settings["OPTIONS"].items() if key != "pool"}
    return {**settings, "OPTIONS": {"connect_timeout": CONNECT_SECONDS, **options}}
