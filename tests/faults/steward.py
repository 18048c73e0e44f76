"""A process of the harness that talks to the database past all proxies: one JSON line a request.

    python -m tests.faults.steward

The harness itself needs no Django, and several stewards are several clients.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import cache
from random import Random
from threading import Event
from time import monotonic
from typing import Any

import django

Answer = Any

_never = Event()


def prepare() -> None:
    """Tables, and nothing in them."""
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)
    for model in _models():
        model._base_manager.all().delete()


def clock() -> tuple[float, float, float]:
    """The database's clock, and CLOCK_MONOTONIC before and after it was read."""
    from django_tasks.store import workers

    workers.read_clock(using="default")
    before = monotonic()
    reading = workers.read_clock(using="default")
    return before, reading.utc.timestamp(), monotonic()


def settle() -> int:
    """Resume and requeue everything; returns how many tasks are left."""
    from django_tasks import api

    cures = {
        api.Status.PAUSED: api.resume_task,
        api.Status.PAUSING: api.resume_task,
        api.Status.FAILED: api.requeue_task,
    }
    rows = api.Task.objects.filter(status__in=cures)
    for status, code, num in list(rows.values_list("status", "biz_code", "biz_num")):
        cures[status](code, num)
    return api.Task.objects.count()


def workers() -> int:
    """How many workers are in the table."""
    from django_tasks.models import WorkerRow

    return WorkerRow.objects.count()


def remains() -> dict[str, Any]:
    """All that is in the tables."""
    from django.db.models import Count

    from django_tasks.models import Task, TaskRun, WorkerRow
    from tests.faults.effects.models import Effect

    # Lines of ends that counted: not of lost ones, nor those that a rescuer wrote for the dead.
    lines = TaskRun.objects.exclude(outcome="lost").exclude(worker__startswith="#")
    columns = ("id", "biz_code", "biz_num", "status", "version", "claimed_by", "when", "biz_ext")
    effects = Effect.objects.values_list("code", "num", "nonce", "hop", "task_id", "version")
    return {
        "rows": list(Task.objects.values(*columns)),
        "workers": list(WorkerRow.objects.values_list("id", flat=True)),
        "effects": list(effects),
        "lines": list(lines.values_list("biz_code", "biz_num").annotate(Count("id"))),
    }


def kill_connections(seed: int, share: float) -> int:
    """Have the server end a share of the connections of everybody else."""
    from django.db import connection

    ids, kill = {
        "mysql": (
            "SELECT id FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(),"
            " '@', 1) AND id <> CONNECTION_ID()",
            "KILL %s",
        ),
        "postgresql": (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
            "SELECT pg_terminate_backend(%s)",
        ),
    }[connection.vendor]
    random = Random(seed)
    with connection.cursor() as cursor:
        cursor.execute(ids)
        victims = [row[0] for row in cursor.fetchall() if random.random() < share]
        for victim in victims:
            try:
                cursor.execute(kill, [victim])
            except django.db.Error as error:  # it has gone by itself
                sys.stderr.write(f"{error}\n")
    return len(victims)


def lock_rows(seed: int, seconds: float) -> int:
    """A rogue: lock task rows in no order, look around, and let go again."""
    from django.db import connection, transaction

    from django_tasks.models import Task

    random = Random(seed)
    locked = 0
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        ids = list(Task.objects.values_list("id", flat=True)[:200])
        random.shuffle(ids)
        try:
            with transaction.atomic():
                for row in ids[:20]:
                    rows = Task.objects.filter(pk=row)
                    if connection.vendor == "sqlite":
                        _never.wait(0.02)  # one writer: to be in a transaction is to lock
                    locked += len(rows.select_for_update().values_list("id"))
                _never.wait(random.choice([0.01, 0.1, 1.2]))
            # On SQLite, whoever waits asks now and then only: leave a gap that it can find.
            _never.wait(0.2 if connection.vendor == "sqlite" else 0.0)
        except django.db.Error:
            connection.close()
    return locked


def add(code: str, num: str, seconds: float) -> bool:
    """Add one task as a client does."""
    return _client().add(code, num, seconds)


def execute(*statements: str) -> None:
    """Statements of an administrator."""
    from django.db import connection

    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


COMMANDS: dict[str, Callable[..., Answer]] = {
    function.__name__: function
    for function in (
        prepare,
        clock,
        settle,
        workers,
        remains,
        kill_connections,
        lock_rows,
        add,
        execute,
    )
}


@cache
def _client() -> Any:
    from tests.faults.client import Client, Options

    return Client(Options(client=0, seed=0, adds=0, seconds=0, batch=0))


def _models() -> list[Any]:
    from django_tasks.models import Task, TaskRun, WorkerRow
    from tests.faults.effects.models import Effect

    return [Task, TaskRun, WorkerRow, Effect]


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.faults.settings")
    django.setup()
    from django.db import connection

    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"answer": COMMANDS[name](*arguments)}
        except django.db.Error as error:
            connection.close()
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
