"""A process of the harness that talks to the database past all proxies: one JSON line a request.

    python -m tests.faults.steward

The harness itself needs no Django, and several stewards are several clients.
"""

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from random import Random
from threading import Event
from time import monotonic
from typing import Any

import django

from tests.faults import journal
from tests.faults.client import a_client
from tests.faults.lanes import add_lanes, cancel_lanes, visit_lanes
from tests.faults.pausing import have_failed, holders, pause_for

Answer = Any

# Of the lines that were in the history before everything else.
OLD = "old"

_never = Event()


def prepare() -> None:
    """Tables, and nothing in them."""
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)
    for model in _models():
        model._base_manager.all().delete()


def clock() -> tuple[float, float, float]:
    """The database's clock, and CLOCK_MONOTONIC before and after it was read."""
    from django_tasks.store.clock import read_clock

    read_clock(using="default")
    before = monotonic()
    reading = read_clock(using="default")
    return before, reading.utc.timestamp(), monotonic()


def settle() -> int:
    """Resume and requeue everything; returns how many tasks are left."""
    from django_tasks import api

    cures: dict[int, Callable[[str, str], bool]] = {
        # As a client, in the journals: a task that was paused during its run goes on then.
        api.Status.PAUSED: a_client().resume_one,
        api.Status.PAUSING: a_client().resume_one,
        api.Status.FAILED: api.requeue_task,
    }
    rows = api.Task.objects.filter(status__in=cures)
    for status, code, num in list(rows.values_list("status", "biz_code", "biz_num")):
        cures[status](code, num)
    return api.Task.objects.count()


def workers() -> int:
    """The number of workers in the table."""
    from django_tasks.models import WorkerRow

    return WorkerRow.objects.count()


def versions() -> list[str]:
    """The release of each worker in the table."""
    from django_tasks.models import WorkerRow

    return sorted(WorkerRow.objects.values_list("version", flat=True))


def migrate_to(target: str) -> None:
    """Migrate the package's tables to a migration, as the release of this process has it."""
    from django.core.management import call_command

    call_command("migrate", "django_tasks", target, verbosity=0)


def call_until(number: int, least: int, name: str) -> int:
    """Make random calls of the API, as a client of that number, until a marker is there.

    At least so many of them are answered: a busy SQLite may let a newcomer wait for seconds.
    """
    from tests.faults.client import Client, Options

    client = Client(Options(client=number, seed=number, adds=0, seconds=0, batch=0))
    calls = 0
    while calls < least or not journal.marker(name).exists():
        calls += client.step()
        _never.wait(0.02)
    return calls


def remains() -> dict[str, Any]:
    """All that is in the tables."""
    from django.db.models import Count

    from django_tasks.models import Task, TaskRun, WorkerRow
    from tests.faults.effects.models import Effect

    # Lines of ends that counted: not of lost ones, nor those that a rescuer wrote for the dead.
    # Neither lost runs nor tasks that were cancelled before they ran have an end that counts.
    counted = TaskRun.objects.exclude(outcome__in=("lost", "cancelled"))
    lines = counted.exclude(worker__startswith="#")
    lines = lines.exclude(biz_code=OLD)
    columns = ("id", "biz_code", "biz_num", "status", "version", "claimed_by", "when", "biz_ext")
    effects = Effect.objects.values_list("code", "num", "nonce", "hop", "task_id", "version")
    return {
        "rows": list(Task.objects.values(*columns)),
        "workers": list(WorkerRow.objects.values_list("id", flat=True)),
        "effects": list(effects),
        "lines": list(lines.values_list("biz_code", "biz_num").annotate(Count("id"))),
    }


# How to list the connections of everybody else, to choose those that are idle, and to end one.
_CONNECTIONS = {
    "mysql": (
        # The list itself counts whole seconds.
        "SELECT processlist_id FROM performance_schema.threads"
        " JOIN performance_schema.events_statements_current AS last USING (thread_id)"
        " JOIN performance_schema.events_statements_current AS this"
        " ON this.thread_id = PS_CURRENT_THREAD_ID()"
        " WHERE processlist_user = SUBSTRING_INDEX(USER(), '@', 1)"
        " AND processlist_id <> CONNECTION_ID()",
        " AND processlist_command = 'Sleep' AND last.timer_end + 20000000000 < this.timer_end",
        "KILL %s",
    ),
    "mariadb": (
        "SELECT id FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(),"
        " '@', 1) AND id <> CONNECTION_ID()",
        " AND command = 'Sleep' AND time_ms > 20",
        "KILL %s",
    ),
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
        " AND state = 'idle' AND clock_timestamp() - state_change > interval '20 ms'",
        "SELECT pg_terminate_backend(%s)",
    ),
}


def close_idle(times: int) -> int:
    """Have the server close the connections that are idle, a few times."""
    closed = 0
    for _ in range(times):
        closed += kill_connections(0, 1.0, only_idle=True)
        _never.wait(0.1)
    return closed


def kill_connections(seed: int, share: float, *, only_idle: bool = False) -> int:
    """Have the server end a share of the connections of everybody else."""
    from django.db import connection

    is_mariadb = getattr(connection, "mysql_is_mariadb", False)
    ids, idle, kill = _CONNECTIONS["mariadb" if is_mariadb else connection.vendor]
    random = Random(seed)
    with connection.cursor() as cursor:
        cursor.execute(ids + idle * only_idle)
        victims = [row[0] for row in cursor.fetchall() if random.random() < share]
        for victim in victims:
            try:
                cursor.execute(kill, [victim])
            except django.db.Error as error:  # it has gone by itself
                sys.stderr.write(f"{error}\n")
    return len(victims)


def watch_rows(seconds: float) -> int:
    """Journal again and again which rows are held, and by whom, until it is over."""
    from django.db import connection

    from django_tasks.models import Task

    looks = 0
    held = Task.objects.filter(claimed_by__isnull=False).values_list("id", "claimed_by")
    while not journal.marker("over").exists():
        try:
            journal.write("held", rows=list(held.all()))
            looks += 1
        except django.db.Error:
            connection.close()
        _never.wait(seconds)
    return looks


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


def lock_running(seconds: float) -> int:
    """A slow view: lock the rows of tasks that run now, and keep them until the end.

    The tasks are made for it: clients that wait for the same rows would add nothing meanwhile.
    """
    from django.db import transaction

    from django_tasks.models import Task

    for num in range(8):
        a_client().add("slow", f"locked-{num}", 0.3)  # its time limit is 0.5
    running = Task.objects.filter(biz_num__startswith="locked-", claimed_by__isnull=False)
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        with transaction.atomic():
            if locked := list(running.select_for_update().values_list("id")):
                _never.wait(seconds)
                return len(locked)
        _never.wait(0.02)
    return 0


def read_for_long(table: str, seconds: float) -> None:
    """A report: a transaction that has read a table, and is open for long."""
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")  # noqa: S608 - a name of ours
        _never.wait(seconds)


def migrate_table(table: str) -> None:
    """Have the table for oneself for a moment, as a migration needs it."""
    from django.db import connection, transaction

    statement = {
        "mysql": f"ALTER TABLE {table} COMMENT = 'migrated'",
        "postgresql": f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE",
    }[connection.vendor]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def delete_history(seconds: float) -> int:
    """An operator: delete old lines of the history, take long over it, and change one's mind."""
    from django.db import transaction

    from django_tasks.models import TaskRun

    TaskRun.objects.bulk_create(_old_lines())
    with transaction.atomic():
        count, _ = TaskRun.objects.filter(biz_code=OLD).delete()
        _never.wait(seconds)
        transaction.set_rollback(True)
    return count


def _old_lines() -> list[Any]:
    from django_tasks.models import TaskRun

    then = datetime.now(timezone.utc) - timedelta(days=900)
    times = {"when": then, "started": then, "ended": then}
    facts = {"outcome": "failed", "missed": "", "attempt": 1, "worker": "w", "error": ""}
    return [TaskRun(biz_code=OLD, biz_num=str(num), **times, **facts) for num in range(3000)]


def add(code: str, num: str, seconds: float) -> bool:
    """Add one task as a client does."""
    added: bool = a_client().add(code, num, seconds)
    return added


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
        versions,
        migrate_to,
        call_until,
        remains,
        close_idle,
        kill_connections,
        watch_rows,
        lock_rows,
        lock_running,
        read_for_long,
        migrate_table,
        delete_history,
        add,
        execute,
        add_lanes,
        visit_lanes,
        cancel_lanes,
        have_failed,
        holders,
        pause_for,
    )
}


def _models() -> list[Any]:
    from django_tasks.models import Pause, Task, TaskRun, WorkerRow
    from tests.faults.effects.models import Effect

    return [Task, TaskRun, WorkerRow, Pause, Effect]


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
