"""A migration waits behind a long report, and all who want the table wait behind the migration."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Model

from django_tasks.models import Task, TaskRun, WorkerRow
from django_tasks.values.status import Status
from django_tasks.worker.worker import Worker
from tests.conftest import Elsewhere
from tests.environments.workers import Held, Start, ident, wait_for_beats, wait_for_judgement
from tests.vendor import SERVERS, VENDOR, only_on
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, handler, stored

pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(*SERVERS, because="SQLite locks the file, and no table by itself"),
]

# Heartbeats of two leases.
LONG = 6
WAITING = {
    "mysql": (
        "SELECT COUNT(*) FROM information_schema.processlist"
        " WHERE state LIKE 'Waiting for table metadata lock%%' AND info LIKE %s"
    ),
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = 'relation'"
    " AND query LIKE %s",
}


def migrate(table: str) -> None:
    """A statement that waits until nobody has the table open."""
    with transaction.atomic(), connection.cursor() as cursor:
        if VENDOR == "mysql":
            cursor.execute(f"ALTER TABLE {table} COMMENT = ''")
        else:
            cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")


def is_waiting(statement: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING[VENDOR], [statement])
        ((count,),) = cursor.fetchall()
    return bool(count)


@contextmanager
def migration_behind_a_report(model: type[Model], elsewhere: Elsewhere) -> Iterator[None]:
    """Nobody else gets at the table of ``model`` for the time of a ``with``."""
    table = model._meta.db_table
    with transaction.atomic():
        model._base_manager.count()
        migration: Future[Any] = elsewhere(migrate, table)
        verb = "ALTER TABLE" if VENDOR == "mysql" else "LOCK TABLE"
        eventually(
            lambda: elsewhere(is_waiting, f"{verb} {table}%").result(DEADLINE),
            "the migration waits",
        )
        yield
    migration.result(DEADLINE)


@pytest.mark.parametrize(
    ("model", "statement"),
    [(TaskRun, "INSERT%t_task_run%"), (Task, "%SELECT%t_task%")],
    ids=["history", "tasks"],
)
def test_heartbeats_go_on_while_the_poller_waits_for_a_table(
    start_worker: Start,
    held: Held,
    handlers: Any,
    elsewhere: Elsewhere,
    model: type[Model],
    statement: str,
) -> None:
    going = Held()

    def fail(task: Any) -> None:
        going(task)
        raise ValueError("a line for the history")

    handlers(handler(held, "long"), handler(fail, "bad", max_attempts=1))
    first = start_worker(lease=0.9)
    added("1", "long")
    added("1", "bad")
    eventually(lambda: held.inside and going.inside, "both run")
    other = start_worker(lease=0.9)
    wait_for_judgement(first, other)
    with migration_behind_a_report(model, elsewhere):
        going.open.set()
        eventually(
            lambda: elsewhere(is_waiting, statement).result(DEADLINE),
            "the poller waits for the table",
        )
        wait_for_beats(LONG, first, other)
    eventually(lambda: stored("1", "bad").status == Status.FAILED, "the end is written")
    assert [each.outcome for each in TaskRun.objects.all()] == ["failed"]
    assert held.inside == ["long/1"]
    assert held.overlaps == going.overlaps == []


def has_no_lease(worker: Worker) -> bool:
    return not worker._membership.is_valid()


def test_where_nobody_can_send_a_heartbeat_nobody_is_taken_for_dead(
    start_worker: Start, held: Held, handlers: Any, elsewhere: Elsewhere
) -> None:
    handlers(handler(held, "long"))
    first = start_worker(lease=0.9)
    added("1", "long")
    eventually(lambda: held.inside, "it runs")
    other = start_worker(lease=0.9)
    wait_for_judgement(first, other)
    before = ident(first), ident(other)
    with migration_behind_a_report(WorkerRow, elsewhere):
        for each in (first, other):
            eventually(partial(has_no_lease, each), "its lease is over")
    wait_for_beats(LONG, first, other)
    assert (ident(first), ident(other)) == before
    assert Task.objects.get().claimed_by == ident(first)
    assert held.inside == ["long/1"]
    assert held.overlaps == []
