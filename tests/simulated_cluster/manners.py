"""The two ways of claiming, on the simulated database: SQLite's own, and MariaDB's on it."""

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks.clock import ClockReading
from django_tasks.store import ownership
from django_tasks.store.dialects import Dialect, choice
from django_tasks.store.dialects.base import Bounds
from django_tasks.store.dialects.sqlite import SQLite
from tests.simulated_cluster import stage
from tests.simulated_cluster.database import Session


class Returning(SQLite):
    """Search and change in one statement. The clock is the database's own."""

    clock_sql = "simulated_now()"

    def read_clock(self) -> ClockReading:
        return Dialect.read_clock(self)

    def utc(self, value: Any) -> datetime:
        return datetime.fromisoformat(value).replace(tzinfo=timezone.utc)

    def bound(self, bounds: Bounds) -> None:
        session: Session = self.connection.connection
        session.lock_wait = bounds.lock_wait
        session.patience = 2 * bounds.statement  # as the network's bound on the servers


class Optimistic(Returning):
    """Read, then change what has not moved: MariaDB. A conflict is worth another try."""

    returns_updates = False
    contention_retries = 10


class OptimisticThroughout(Optimistic):
    """MySQL also reads what it is going to delete."""

    returns_deletes = False


def keep_manners(connection: BaseDatabaseWrapper) -> None:
    """Have a connection speak the dialect of the present play."""
    kind: type[Returning] = Returning
    if stage.is_optimistic:
        kind = OptimisticThroughout if stage.is_mysql else Optimistic
    setattr(connection, choice.KEPT, kind(connection))


def hand_over_joined(
    dialect: Dialect, rows: Sequence[ownership.FreedRow], now: datetime
) -> tuple[str, list[Any]]:
    """MariaDB's hand-over, in words that SQLite knows: a count is all that it answers."""
    template, params = ownership._hand_over_returning(dialect, rows, now)
    return template.replace("RETURNING id", ""), params
