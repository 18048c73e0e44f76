"""A planned switchover: the old primary stays up, read-only, and new connections lead elsewhere.

Stood in for by the sessions of one server: those that were there before may only read. A ping
succeeds on them for ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.db.backends.signals import connection_created

from django_tasks.models import Task
from tests.environments.conftest import another_way
from tests.environments.workers import (
    HEARTBEAT,
    POLLER,
    Start,
    Watch,
    ident,
    is_of_savepoint,
    wait_for_beats,
)
from tests.vendor import SERVERS, VENDOR, only_on
from tests.waiting import eventually
from tests.worker.parts import added, handler

pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(*SERVERS, because="SQLite has no second server to switch to"),
]

# The transaction that has just begun as well: MariaDB's begins with its first look at a table.
READ_ONLY = {
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "postgresql": (
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; SET TRANSACTION READ ONLY"
    ),
}


class Switchover(Watch):
    """Makes the sessions of our threads read-only that were opened before it happened."""

    def __init__(self) -> None:
        super().__init__()
        self._has_happened = False
        self._old: list[Any] = []

    def opened(self, *, connection: Any, **facts: Any) -> None:
        super().opened(connection=connection, **facts)
        if not self._has_happened:
            self._old.append(connection.connection)

    def happen(self) -> None:
        self._has_happened = True

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        raw = context["connection"].connection
        if self._has_happened and raw in self._old and not is_of_savepoint(sql):
            # Each time: PostgreSQL takes it back with a rollback.
            with raw.cursor() as cursor:
                cursor.execute(READ_ONLY[VENDOR])
        return super().__call__(execute, sql, params, many, context)


@contextmanager
def a_switchover() -> Iterator[Switchover]:
    switchover = Switchover()
    connection_created.connect(switchover.opened)
    try:
        yield switchover
    finally:
        connection_created.disconnect(switchover.opened)


@pytest.fixture(params=[0, None], ids=lambda age: f"CONN_MAX_AGE={age}")
def kept(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[None]:
    with another_way({**connection.settings_dict, "CONN_MAX_AGE": request.param}):
        yield


def write(task: Any) -> None:
    Group.objects.create(name=str(task))


@pytest.mark.usefixtures("kept")
def test_a_worker_connects_again_by_itself_and_runs_what_waits(
    start_worker: Start, handlers: Any
) -> None:
    handlers(
        handler(write, "plain", backoff=0),
        handler(write, "effect", backoff=0, atomic=True),
    )
    with a_switchover() as switchover:
        worker = start_worker(threads=1)
        for code in ("plain", "effect"):
            added("before", code)
        eventually(lambda: not Task.objects.exists(), "each thread is connected")
        before, old = ident(worker), switchover.sessions(POLLER, HEARTBEAT, "django_tasks-1")
        switchover.happen()
        for code in ("plain", "effect"):
            added("after", code)
        eventually(lambda: not Task.objects.exists(), "all have run", log=rows)
        wait_for_beats(2, worker)
        for thread in (POLLER, HEARTBEAT, "django_tasks-1"):
            assert switchover.sessions(thread) - old, f"{thread} has its old session"
    assert ident(worker) == before
    keys = {f"{code}/{when}" for code in ("plain", "effect") for when in ("before", "after")}
    assert set(Group.objects.values_list("name", flat=True)) == keys


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("kept", [None], indirect=True)
def test_an_atomic_run_whose_end_the_old_primary_refuses_costs_no_attempt(
    start_worker: Start, handlers: Any
) -> None:
    handlers(handler(lambda task: None, "end", atomic=True, max_attempts=1))
    with a_switchover() as switchover:
        start_worker(threads=1)
        added("before", "end")
        eventually(lambda: not Task.objects.exists(), "each thread is connected")
        switchover.happen()
        added("after", "end")
        eventually(lambda: not Task.objects.exists(), "it has run", log=rows)


def rows() -> str:
    return "\n".join(f"{task} {task.status} {task.last_error}" for task in Task.objects.all())
