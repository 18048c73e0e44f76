"""Bounds for waits that leave nothing behind on the session they were set for.

A session may belong to a pool, Django's or PgBouncer's. A bound that stayed there would hold for
the next user, and statements would fail that used to wait.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from django.db import Error, connections

from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import write_transaction

# Of a row's lock, and of a table's: a migration waits for a report, and all that come wait behind
# it, for a day by default.
_MYSQL_NAMES = "innodb_lock_wait_timeout", "lock_wait_timeout"


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
    _run(using, "SELECT set_config('lock_timeout', %s, true)", [f"{milliseconds}ms"])
    yield


@contextmanager
def _bounded_session(using: str, seconds: float) -> Iterator[None]:
    """MySQL and MariaDB have nothing for a transaction: what was there before is set again."""
    before = _run(using, f"SELECT {', '.join(f'@@SESSION.{name}' for name in _MYSQL_NAMES)}")
    template = f"SET {', '.join(f'SESSION {name} = %s' for name in _MYSQL_NAMES)}"
    _run(using, template, [max(1, int(seconds))] * len(_MYSQL_NAMES))
    try:
        yield
    finally:
        with suppress(Error):  # the session is gone, and its settings with it
            _run(using, template, before)


def _run(using: str, statement: str, params: Any = ()) -> Any:
    with connections[using].cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchone() if cursor.description else None


Bounding = Callable[[str, float], AbstractContextManager[None]]
_AROUND: dict[str, Bounding] = {"mysql": _bounded_session}
_INSIDE: dict[str, Bounding] = {"postgresql": _bounded_locally}
