"""Connections that others use next: Django's pool, and PgBouncer in transaction mode.

Nothing that we set for a session of the server may hold for them.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections, transaction

from django_tasks.api import lock
from django_tasks.models import Lock, Pause
from tests.conftest import Elsewhere
from tests.vendor import POSTGRESQL, only_on
from tests.waiting import DEADLINE, eventually, never

pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(POSTGRESQL, because="only PostgreSQL is pooled"),
]

# Longer than a sixth of the shortest lease, which is what a renewal waits for a lock.
SECONDS = 1.5
BOUNDS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")


@pytest.fixture(params=["pooled", "bounced"])
def direct(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[Any]:
    """Connections whose sessions are others' as well, and beside them one that is our own."""
    own = connection.copy()
    request.getfixturevalue(request.param)
    yield own
    own.close()


def bounds() -> dict[int, list[str]]:
    """The bounds of three connections' sessions, by the session's process."""
    opened: list[Any] = [connections.create_connection("default") for _ in range(3)]
    found = {}
    for each in opened:
        with each.cursor() as cursor:
            shown = ", ".join(f"current_setting('{name}')" for name in BOUNDS)
            cursor.execute(f"SELECT pg_backend_pid(), {shown}")
            pid, *values = cursor.fetchone()
            found[pid] = values
    for each in opened:
        each.close()
    return found


def locked_and_renewed() -> None:
    """A lock that was held for longer than its lease."""
    with lock("report", lease=1) as held:
        first = until()
        eventually(lambda: until() > first + 1_000_000, "a lease after the first one")
        held.check()
    connection.close()


def until() -> int:
    """As a request asks: its connection goes back to the others."""
    try:
        return Lock.objects.get().until
    finally:
        connection.close()


@contextmanager
def held_by(own: Any, row: Pause) -> Iterator[None]:
    """The row is locked by somebody with a connection of his own for the time of a ``with``."""
    with own.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM t_task_pause WHERE id = %s FOR UPDATE", [row.pk])
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


def wait_for(row: Pause) -> Pause:
    """A request that needs the row."""
    with transaction.atomic():
        return Pause.objects.select_for_update().get(pk=row.pk)


@pytest.mark.usefixtures("direct")
def test_a_lock_leaves_no_bound_behind() -> None:
    before = bounds()
    locked_and_renewed()
    after = bounds()
    assert set(before) & set(after), "none of the sessions was there before"
    assert [*before.values(), *after.values()] == [["0"] * 3] * (len(before) + len(after))


def test_a_request_waits_for_a_row_as_long_as_it_did_before_somebody_took_a_lock(
    direct: Any, elsewhere: Elsewhere
) -> None:
    row = Pause.objects.create(queue="held")
    locked_and_renewed()
    with held_by(direct, row):
        waiting: list[Future[Any]] = [elsewhere(wait_for, row) for _ in range(3)]
        never(lambda: any(each.done() for each in waiting), "one has ended", seconds=SECONDS)
    for each in waiting:
        assert each.result(DEADLINE) == row
