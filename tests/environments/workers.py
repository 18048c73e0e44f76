"""Workers inside the test's process, what runs in them, and the sessions that they have."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, current_thread
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.signals import connection_created

from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import WorkerRow
from django_tasks.worker.worker import Worker
from tests.vendor import MARIADB, MYSQL, ON_SQLITE, POSTGRESQL, SQLITE, VENDOR, database
from tests.waiting import DEADLINE, eventually

OUR_THREADS = "django_tasks"
POLLER = "django_tasks-default"
HEARTBEAT = "django_tasks-heartbeat-default"
ACTIVE = "django_tasks-active-default"
SCHEDULES = "django_tasks-schedules-default"

Start = Callable[..., Worker]


class Held:
    """A handler that runs until the test lets it go, and notes what runs twice at once."""

    def __init__(self) -> None:
        self.open = Event()
        self.inside: list[str] = []
        self.overlaps: list[str] = []
        self._lock = Lock()

    def __call__(self, task: RunningTask) -> None:
        key = str(task)
        with self._lock:
            if key in self.inside:
                self.overlaps.append(key)
            self.inside.append(key)
        try:
            assert self.open.wait(2 * DEADLINE)
        finally:
            with self._lock:
                self.inside.remove(key)


# Heartbeats


def beats(*workers: Worker) -> list[int]:
    """The number of heartbeats that each worker's row counts; -1 without a row."""
    rows = dict(WorkerRow.objects.values_list("pk", "beats"))
    return [rows.get(ident(each), -1) for each in workers]


def ident(worker: Worker) -> int:
    return worker._membership.worker_id


def wait_for_beats(count: int, *workers: Worker) -> None:
    """Until each worker, under the id that it has now, has sent ``count`` heartbeats more."""
    idents, before = [ident(each) for each in workers], beats(*workers)

    def have_beaten() -> bool:
        return all(now >= then + count for now, then in zip(beats(*workers), before, strict=True))

    eventually(have_beaten, f"{count} heartbeats of {idents}", log=lambda: str(beats(*workers)))
    assert [ident(each) for each in workers] == idents, "one was taken for dead"


def wait_for_judgement(*workers: Worker) -> None:
    """Until each worker would rescue what a dead one holds."""
    eventually(
        lambda: all(each._membership.may_rescue() for each in workers), "they may judge others"
    )


# Sessions


class Sent(NamedTuple):
    """A statement, and what its session said of its bounds when it was sent."""

    thread: str
    session: int
    sql: str
    bounds: tuple[Any, ...]


_ASKED = {
    MARIADB: (
        "SELECT CONNECTION_ID(), @@innodb_lock_wait_timeout, @@lock_wait_timeout,"
        " @@max_statement_time"
    ),
    MYSQL: (
        "SELECT CONNECTION_ID(), @@innodb_lock_wait_timeout, @@lock_wait_timeout,"
        " @@max_execution_time / 1000"
    ),
    POSTGRESQL: (
        "SELECT pg_backend_pid(), current_setting('lock_timeout'),"
        " current_setting('statement_timeout')"
    ),
    SQLITE: "PRAGMA busy_timeout",
}
_KILL = {"mysql": "KILL %s", "postgresql": "SELECT pg_terminate_backend(%s)"}


def asked(connection: Any) -> tuple[int, tuple[Any, ...]]:
    """The number of a connection's session, and its bounds."""
    with connection.wrap_database_errors:
        cursor = connection.connection.cursor()
        cursor.execute(_ASKED[database()])
        row = cursor.fetchone()
        cursor.close()
    return (id(connection.connection), row) if ON_SQLITE else (row[0], tuple(row[1:]))


class Watch:
    """Notes each statement that threads of ours send over connections opened meanwhile."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def opened(self, *, connection: Any, **_: Any) -> None:
        ours = current_thread().name.startswith(OUR_THREADS)
        if ours and self not in connection.execute_wrappers:
            connection.execute_wrappers.append(self)

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not is_of_savepoint(sql):
            session, bounds = asked(context["connection"])
            self.sent.append(Sent(current_thread().name, session, sql, bounds))
        return execute(sql, params, many, context)

    def of(self, *threads: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.thread in threads]

    def sessions(self, *threads: str) -> set[int]:
        return {sent.session for sent in self.of(*threads)}


def is_of_savepoint(sql: str) -> bool:
    """Tell if a statement may come after an error, when the session answers no question."""
    return "SAVEPOINT" in sql


@contextmanager
def watched() -> Iterator[Watch]:
    watch = Watch()
    connection_created.connect(watch.opened)
    try:
        yield watch
    finally:
        connection_created.disconnect(watch.opened)


def kill(sessions: set[int]) -> None:
    """As a server does with connections that were idle for too long."""
    with connections["default"].cursor() as cursor:
        for number in sessions:
            cursor.execute(_KILL[VENDOR], [number])
