"""Bounds for waits that leave nothing behind on the session they were set for.

A session may belong to a pool, Django's or PgBouncer's. A bound that stayed there would hold for
the next user, and statements would fail that used to wait.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from django.db import Error, connections

from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import write_transaction

# Of a row's lock, and of a table's: a migration waits for a report, and all that come wait behind
# it, by default for a day (MariaDB) or a year (MySQL).
_MYSQL_ASK = "SELECT @@SESSION.innodb_lock_wait_timeout, @@SESSION.lock_wait_timeout"
_MYSQL_SET = "SET SESSION innodb_lock_wait_timeout = %s, SESSION lock_wait_timeout = %s"


@contextmanager
def bounded_transaction(using: str, seconds: float) -> Iterator[None]:
    """A write transaction of which no statement waits longer than ``seconds`` for a lock.

    It sees all that was committed before through any node of a cluster. Call it outside of
    transactions. Errors of the database pass, one for a wait that took too long among them. MySQL
    and MariaDB count whole seconds, at least one. On SQLite the ``timeout`` of the project's
    settings is the bound.
    """
    vendor = connections[using].vendor
    around = _AROUND.get(vendor, _unbounded)
    inside = _INSIDE.get(vendor, _unbounded)
    with around(using, seconds):
        dialect_of(using).catch_up()
        with write_transaction(using), inside(using, seconds):
            yield


def _unbounded(using: str, seconds: float) -> AbstractContextManager[None]:
    return nullcontext()


@contextmanager
def _bounded_locally(using: str, seconds: float) -> Iterator[None]:
    """PostgreSQL forgets it with the transaction, whatever becomes of that."""
    milliseconds = max(1, int(seconds * 1000))  # 0 would mean no bound
    template = "SELECT set_config('lock_timeout', %s, true)"
    dialect_of(using).fetch(template, [f"{milliseconds}ms"])
    yield


@contextmanager
def _bounded_session(using: str, seconds: float) -> Iterator[None]:
    """MySQL and MariaDB have nothing for a transaction: what was there before is set again."""
    dialect = dialect_of(using)
    (before,) = dialect.fetch(_MYSQL_ASK)
    dialect.execute(_MYSQL_SET, [max(1, int(seconds))] * 2)
    try:
        yield
    finally:
        with suppress(Error):  # the session is gone, and its settings with it
            dialect.execute(_MYSQL_SET, before)


Bounding = Callable[[str, float], AbstractContextManager[None]]
_AROUND: dict[str, Bounding] = {"mysql": _bounded_session}
_INSIDE: dict[str, Bounding] = {"postgresql": _bounded_locally}
