"""Millions of tasks and runs, made by the database itself in a few statements."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import BaseConstraint, Index, Model

from benchmarks.pages import columns
from benchmarks.pages.columns import CODES, EXCEPTIONS, RECURRING, WORKERS
from benchmarks.pages.dialects import DIALECTS, Dialect
from django_tasks.models import Gate, Lock, Pause, Task, TaskMinute, TaskRun, WorkerRow
from django_tasks.store import clock, minutes
from django_tasks.timezones import for_django
from django_tasks.values.figures import COLUMNS

BATCH = 500_000
MINUTES = 120  # that are counted at the least
# The last ones, which the workers have written and nobody has merged yet: see ``pruner``.
BY_THE_WORKER = 5
HOURS = 7 * 24  # that are merged
# Their rows of each code: where a piece of 500 rows ends inside a code, there is one more.
PIECES = HOURS * 11 // 10


def seed(rows: int) -> None:
    """Fill the empty tables of tasks and runs, as fast as it goes."""
    with _in_haste(), _without_indexes():
        fill(rows)
    settle(Task, TaskRun)


def fill(rows: int) -> None:
    """Add tasks and runs."""
    dialect = _dialect()
    for first in range(1, rows + 1, BATCH):
        numbers = dialect.numbers(first, min(rows, first + BATCH - 1))
        _insert(Task, numbers, columns.tasks(dialect))
        _insert(TaskRun, numbers, columns.runs(dialect, rows))
    _insert(Task, dialect.numbers(rows + 1, rows + RECURRING), columns.recurring(dialect, rows))


def seed_present() -> None:
    """Write the tables that tell of the present again: workers, counted minutes, locks, pauses.

    The last two hours are there by the minute, of these the last minutes by worker, and a week by
    the hour.
    """
    dialect = _dialect()
    for model in (TaskMinute, WorkerRow, Pause, Lock, Gate):
        model._base_manager.all().delete()
    last = int(dialect.base.timestamp() // 60)
    hour = last - last % 60 - MINUTES
    for place in range(len(CODES)):
        exception = EXCEPTIONS[place % len(EXCEPTIONS)]
        for name in ("", exception):
            merged = last - hour - BY_THE_WORKER
            counted = columns.minutes(place, hour, name, worker=0)
            _insert(TaskMinute, dialect.numbers(1, merged), counted)
            for worker in range(1, WORKERS + 1):
                counted = columns.minutes(place, hour, name, worker)
                _insert(TaskMinute, dialect.numbers(merged + 1, last - hour), counted)
            hours = columns.hours(place, hour, name, HOURS)
            _insert(TaskMinute, dialect.numbers(1, PIECES), hours)
    WorkerRow._base_manager.bulk_create(_worker(number) for number in range(1, WORKERS + 1))
    Pause._base_manager.create(biz_code="refund", queue="", by="anna")
    Gate._base_manager.create(biz_code="mail", max_running=20)
    Lock._base_manager.bulk_create(Lock(name=f"lock {n}", term=n) for n in range(200))
    settle(TaskMinute)


def count_runs() -> None:
    """Add what a worker has counted in this minute, of each code."""
    last = minutes.minute_of(clock.now("default"))
    values = [1] * len(COLUMNS)
    rows = [minutes.Counted(last, code, "", values) for code in CODES]
    minutes.add(1, rows, using="default")


def _worker(number: int) -> WorkerRow:
    """A worker; the last two of them are silent."""
    now = clock.now("default")
    silent = timedelta(hours=2 if number > WORKERS - 2 else 0)
    return WorkerRow(
        id=number,
        name=f"web-{number:09}",
        started=for_django(now - timedelta(days=1)),
        # Alive as long as it is measured.
        heartbeat=for_django(now - silent),
        lease=3600,
        threads=8,
        busy=number % 9,
        state="running",
        codes=list(CODES)[:-2],
        host=f"host-{number % 3}",
        pid=1000 + number,
        version="0.1.0",
        memory=80_000_000,
    )


def clear() -> None:
    """Empty all tables of ours."""
    for model in (Task, TaskRun, TaskMinute, WorkerRow, Pause, Lock, Gate):
        model._base_manager.all().delete()


def settle(*models: type[Model]) -> None:
    """Have the tables as a database has them that is not new: vacuumed, with statistics.

    SQLite's users never ask for any.
    """
    words = {"mysql": "ANALYZE TABLE", "postgresql": "VACUUM ANALYZE"}.get(connection.vendor)
    for model in models:
        if words:
            _execute(f"{words} {model._meta.db_table}")


def _dialect() -> Dialect:
    return DIALECTS[connection.vendor](clock.now("default"))


def _insert(model: type[Model], numbers: str, values: dict[str, str]) -> None:
    named = {field.column for field in model._meta.concrete_fields if field.column != "id"}
    assert named == values.keys() - {"id"}, named ^ values.keys()
    quote = connection.ops.quote_name
    names = ", ".join(quote(name) for name in values)
    found = f"SELECT {', '.join(values.values())} FROM {numbers} AS numbers"
    _execute(f"INSERT INTO {quote(model._meta.db_table)} ({names}) {found}")


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        if cursor.description:
            cursor.fetchall()


@contextmanager
def _in_haste() -> Iterator[None]:
    """Write without care: who loses power makes the rows again."""
    hasty = {
        "sqlite": ["PRAGMA synchronous = OFF", "PRAGMA cache_size = -1000000"],
        "mysql": ["SET SESSION unique_checks = 0"],
        "postgresql": [
            *("ALTER TABLE t_task SET UNLOGGED", "ALTER TABLE t_task_run SET UNLOGGED"),
            "SET maintenance_work_mem = '512MB'",
        ],
    }
    for statement in hasty[connection.vendor]:
        _execute(statement)
    yield
    connection.close()  # and with it all that was set


@contextmanager
def _without_indexes() -> Iterator[None]:
    """Make the indexes at the end: sorted once, they take a tenth of the time.

    SQLite would copy the whole table to drop its unique key: there it stays.
    """
    with ExitStack() as stack:
        for model in (Task, TaskRun):
            for index in model._meta.indexes:
                stack.enter_context(_without_index(model, index))
            for constraint in model._meta.constraints if connection.vendor != "sqlite" else ():
                stack.enter_context(_without_constraint(model, constraint))
        yield


@contextmanager
def _without_index(model: type[Model], index: Index) -> Iterator[None]:
    with connection.schema_editor() as editor:
        editor.remove_index(model, index)
    yield
    with connection.schema_editor() as editor:
        editor.add_index(model, index)


@contextmanager
def _without_constraint(model: type[Model], constraint: BaseConstraint) -> Iterator[None]:
    with connection.schema_editor() as editor:
        editor.remove_constraint(model, constraint)
    yield
    with connection.schema_editor() as editor:
        editor.add_constraint(model, constraint)


def seeded(rows: int) -> bool:
    """Tell if the tables have so many rows already."""
    last: Any = TaskRun._base_manager.order_by("-id").values_list("pk", flat=True).first()
    return bool(last == rows)
