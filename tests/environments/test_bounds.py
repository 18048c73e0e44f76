"""Each session of the poller and of the heartbeats has bounded waits, whenever it was made."""

import os
import re
import socket
from collections.abc import Iterator
from datetime import timedelta
from threading import current_thread
from typing import Any

import pytest
from django.db import Error, connection, connections, transaction

from django_tasks.models import Task, TaskRun, WorkerRow
from django_tasks.store.connection import drop_connection, keep_connection, take_connection
from django_tasks.store.dialects import Bounds, dialect_of
from django_tasks.store.errors import Kind, kind_of, was_cut_off
from django_tasks.values.status import Status
from django_tasks.worker import execution
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.heartbeat import TURN_SECONDS
from django_tasks.worker.isolated.parent import NoProcess
from django_tasks.worker.worker import Worker
from tests.conftest import Elsewhere
from tests.environments.conftest import another_way
from tests.environments.workers import (
    HEARTBEAT,
    POLLER,
    SCHEDULES,
    Sent,
    Start,
    Watch,
    asked,
    ident,
    kill,
    wait_for_beats,
    watched,
)
from tests.factories import a_row, a_run, a_worker
from tests.vendor import (
    MARIADB,
    MYSQL,
    ON_SQLITE,
    POSTGRESQL,
    SERVERS,
    SQLITE,
    VENDOR,
    database,
    only_on,
)
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, ago, config, handler

pytestmark = pytest.mark.django_db(transaction=True)

# Unlike each other, and unlike what a server has by default.
POLLERS = Bounds(lock_wait=3.0, statement=11.0)
HEARTBEATS = Bounds(lock_wait=2.0, statement=7.0)
_BY_DATABASE: dict[str, dict[str, tuple[object, ...]]] = {
    MARIADB: {POLLER: (3, 3, 11.0), HEARTBEAT: (2, 2, 7.0)},
    # The last one of SELECT alone.
    MYSQL: {POLLER: (3, 3, 11.0), HEARTBEAT: (2, 2, 7.0)},
    POSTGRESQL: {POLLER: ("3s", "11s"), HEARTBEAT: ("2s", "7s")},
    # A heartbeat asks for its turn, again and again.
    SQLITE: {POLLER: (3000,), HEARTBEAT: (1000 * TURN_SECONDS,)},
}
SHOWN = _BY_DATABASE[database()]
SHOWN[SCHEDULES] = SHOWN[POLLER]
OURS = POLLER, HEARTBEAT, SCHEDULES
UNBOUNDED = ("0", "0")

# What a cycle of the poller and a heartbeat send at least, by verb and table.
OF_A_POLLER = {
    *("SELECT t_task", "UPDATE t_task", "DELETE t_task", "INSERT t_task_run", "SELECT t_task_run"),
    *("DELETE t_task_run", "SELECT t_task_worker", "DELETE t_task_worker", "SELECT t_task_gate"),
    *("UPDATE t_task_gate", "INSERT t_task_gate"),
}
OF_A_HEARTBEAT = {
    *("INSERT t_task_worker", "SELECT t_task_worker", "UPDATE t_task_worker"),
    "DELETE t_task_worker",
}


@pytest.fixture(autouse=True)
def known_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerConfig, "poller_bounds", POLLERS)
    monkeypatch.setattr(WorkerConfig, "heartbeat_bounds", HEARTBEATS)


@pytest.fixture
def everything(handlers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers whose tasks have a worker send all that it can send."""

    def fail(task: Any) -> None:
        raise ValueError("a line for the history")

    def no_process(*args: Any, **kwargs: Any) -> None:
        raise NoProcess("a test")

    handlers(
        handler(lambda task: None, "good"),
        handler(fail, "bad", max_attempts=1),
        handler(lambda task: timedelta(hours=1), "again"),
        handler(lambda task: None, "effect", atomic=True),
        handler(lambda task: None, "limited", max_running=1, rate_limit="100/s"),
        handler(lambda task: None, "daily", schedule="every 1d"),
    )
    monkeypatch.setattr(execution, "run_apart", no_process)
    a_run(ended=ago(10**8))


def done(*codes: str) -> bool:
    """Tell if nothing of these codes is to be done."""
    return not Task.objects.filter(biz_code__in=codes).exclude(status=Status.FAILED).exists()


def have_everything_done(worker: Worker, name: str) -> None:
    """Tasks that end in all ways, and what a dead worker and lost answers have left behind."""
    for code in ("good", "bad", "again", "effect", "limited"):
        added(name, code)
    dead = a_worker(name, lease=0.1, started=ago(100), heartbeat=ago(100))
    owned = {"when": ago(), "status": Status.RUNNING, "biz_code": "good", "claim_time": ago()}
    a_row(f"{name}-orphan", claimed_by=dead.pk, **owned)
    a_row(f"{name}-stray", claimed_by=ident(worker), **owned)
    a_row(f"{name}-suspect", claimed_by=dead.pk, rescues=1, **owned)
    eventually(lambda: done("good", "bad", "effect", "limited"), "all is done")
    eventually(lambda: not WorkerRow.objects.filter(name=name), "the dead one is gone")
    eventually(lambda: not TaskRun.objects.filter(ended__lt=ago(10**7)), "old lines are gone")


def kinds(sent: list[Sent]) -> set[str]:
    """Verb and table of each statement; of one with several tables, each of them."""
    found: set[str] = set()
    for each in sent:
        verbs = re.findall("SELECT|INSERT|UPDATE|DELETE", each.sql)
        tables = re.findall(r"\bt_task(?:_\w+)?", each.sql)
        found.update(f"{verb} {table}" for verb in verbs for table in tables)
    return found


def unbounded(watch: Watch) -> list[Sent]:
    """Statements of the threads of a worker that other bounds held for."""
    sent = watch.of(*OURS)
    return [each for each in sent if each.bounds != SHOWN[each.thread] and not _binds(each.sql)]


def _binds(sql: str) -> bool:
    """Tell if a statement sets the bounds, or asks first how it may."""
    return "set_config" in sql or "pg_backend_pid" in sql or sql.startswith("SET SESSION")


@pytest.fixture(params=[0, 60, None], ids=lambda age: f"CONN_MAX_AGE={age}")
def kept(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[None]:
    """Connections that are looked at before each use, and kept for as long as the project says."""
    wishes = {"CONN_MAX_AGE": request.param, "CONN_HEALTH_CHECKS": True}
    with another_way({**connection.settings_dict, **wishes}):
        yield


@pytest.mark.usefixtures("kept", "everything")
def test_every_statement_has_bounds_also_after_the_server_has_closed_the_connections(
    start_worker: Start,
) -> None:
    with watched() as watch:
        worker = start_worker(lease=0.5)
        wait_for_beats(1, worker)
        have_everything_done(worker, "first")
        first = watch.sessions(POLLER, HEARTBEAT)
        if not ON_SQLITE:
            assert len(first) == 2
            kill(first)
            have_everything_done(worker, "second")
            wait_for_beats(2, worker)
            assert {each.thread for each in watch.sent if each.session not in first} >= {
                POLLER,
                HEARTBEAT,
            }
        worker.stop()
        assert worker.join(20)
    assert unbounded(watch) == []
    assert kinds(watch.of(POLLER)) >= OF_A_POLLER
    assert kinds(watch.of(HEARTBEAT)) >= OF_A_HEARTBEAT
    assert kinds(watch.of(SCHEDULES)) >= {"SELECT t_task", "INSERT t_task"}


# Sessions that others use as well

LISTENER = "django_tasks-hints-default"

has_poolers = only_on(POSTGRESQL, because="only PostgreSQL is pooled")


def bounds_elsewhere(count: int) -> list[tuple[Any, ...]]:
    """The bounds of so many connections that are not the worker's."""
    opened: list[Any] = [connections.create_connection("default") for _ in range(count)]
    try:
        for each in opened:
            each.ensure_connection()
        return [asked(each)[1] for each in opened]
    finally:
        for each in opened:
            each.close()


@has_poolers
@pytest.mark.usefixtures("pooled", "everything")
def test_the_poller_and_the_heartbeat_take_no_connection_of_a_pool(
    start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, int]] = []
    pool = connections["default"].pool  # type: ignore[attr-defined]
    getconn = pool.getconn

    def giving(*args: Any, **kwargs: Any) -> Any:
        taken = getconn(*args, **kwargs)
        given.append((current_thread().name, taken.info.backend_pid))
        return taken

    monkeypatch.setattr(pool, "getconn", giving)
    with watched() as watch:
        worker = start_worker(lease=0.5)
        have_everything_done(worker, "pooled")
        worker.stop()
        assert worker.join(20)
    takers = {thread for thread, _ in given}
    assert takers - {*OURS, "MainThread"}, "no run uses the pool"
    assert not takers & {*OURS}
    pooled = {session for _, session in given}
    assert not pooled & watch.sessions(*OURS)
    assert unbounded(watch) == []
    assert {each.bounds for each in watch.sent if each.session in pooled} == {UNBOUNDED}
    assert bounds_elsewhere(3) == [UNBOUNDED] * 3


@has_poolers
@pytest.mark.usefixtures("bounced", "everything")
def test_behind_a_pooler_of_transactions_bounds_hold_for_our_statements_and_for_no_other(
    start_worker: Start,
) -> None:
    """All connections share one session of the server."""
    with watched() as watch:
        worker = start_worker(lease=0.5)
        have_everything_done(worker, "bounced")
        worker.stop()
        assert worker.join(20)
    assert len({each.session for each in watch.sent}) == 1
    assert unbounded(watch) == []
    others = [each for each in watch.sent if each.thread not in OURS]
    assert {each.bounds for each in others} == {UNBOUNDED}
    assert bounds_elsewhere(1) == [UNBOUNDED]


# The network


def probing() -> int:
    """Seconds until PostgreSQL's client finds a silent server dead, as its socket says.

    The server had confirmed the statement, so nothing is on its way: only probes tell.
    """
    raw: Any = connection.connection
    with socket.socket(fileno=os.dup(raw.fileno())) as line:
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        idle, interval, count = (line.getsockopt(socket.IPPROTO_TCP, name) for name in names)
    return int(idle + interval * count)


def waiting_for_an_answer() -> int:
    """The same of MySQL's client, which waits for any answer so long."""
    parameters: dict[str, Any] = connection.get_connection_params()
    return int(parameters["read_timeout"])


@only_on(*SERVERS, because="no network lies between a process and its SQLite file")
def test_a_server_that_dies_over_a_statement_is_found_out_within_its_bound(
    elsewhere: Elsewhere,
) -> None:
    def silence() -> int:
        take_connection("default", Bounds(lock_wait=5.0, statement=15.0))
        connection.ensure_connection()
        return {"postgresql": probing, "mysql": waiting_for_an_answer}[VENDOR]()

    assert elsewhere(silence).result(DEADLINE) <= 2.5 * 15


# What takes too long

# The bound of a look is twice that of a lock; the network's, twice that of a statement.
SHORT = Bounds(lock_wait=1.0, statement=1.5)
LOCK = "SELECT id FROM t_task FOR UPDATE"
# Of rows: a SLEEP that is cut off answers with 1, and it is the next one that fails.
MYSQL_SLEEPS = "SELECT SLEEP(30) FROM (SELECT 1 UNION SELECT 2) AS two"
SLEEPS = {
    "mysql": (MYSQL_SLEEPS, f"CREATE TEMPORARY TABLE slept AS {MYSQL_SLEEPS}"),
    "postgresql": ("SELECT pg_sleep(30)", "DO 'BEGIN PERFORM pg_sleep(30); END'"),
}
no_sleep = only_on(*SERVERS, because="SQLite works in the process that asks it")


def bounded_error(statement: str, sessions: list[int]) -> Error:
    """The error of a statement that takes longer than a session of ours allows."""
    take_connection("default", SHORT)
    keep_connection("default")
    sessions.append(asked(connection)[0])
    with pytest.raises(Error) as caught:
        dialect_of("default").execute(statement)
    drop_connection("default")
    return caught.value


@no_sleep
def test_a_look_that_takes_too_long_is_ended_by_the_server(elsewhere: Elsewhere) -> None:
    """It reads no more for somebody who has given up, and the error is told from an outage."""
    look, _ = SLEEPS[VENDOR]
    error = elsewhere(bounded_error, look, []).result(DEADLINE)
    assert was_cut_off(error, using="default")


@no_sleep
def test_a_change_that_takes_too_long_holds_nobody_up(elsewhere: Elsewhere) -> None:
    """MySQL does not end what is no SELECT: there our own side of the network gives up."""
    _, change = SLEEPS[VENDOR]
    sessions: list[int] = []
    error = elsewhere(bounded_error, change, sessions).result(DEADLINE)
    assert kind_of(error, using="default") is Kind.WORLD
    assert was_cut_off(error, using="default") is (database() != MYSQL)
    if database() == MYSQL:
        kill({*sessions})


@no_sleep
def test_a_lock_that_is_waited_for_too_long_is_told_as_one(elsewhere: Elsewhere) -> None:
    a_row("1")
    with transaction.atomic():
        list(Task.objects.select_for_update())
        error = elsewhere(bounded_error, LOCK, []).result(DEADLINE)
    assert kind_of(error, using="default") is Kind.CONTENTION


# How long they are


@pytest.mark.parametrize("lease", [1.0, 30.0, 600.0])
def test_a_heartbeat_and_a_cycle_that_wait_as_long_as_they_may_keep_the_lease(
    lease: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    wishes = config(lease=lease)
    beat, cycle = wishes.heartbeat_bounds, wishes.poller_bounds
    # Two statements, sent a third of the lease after those of the last one.
    assert 2 * beat.statement + wishes.heartbeat_interval <= lease
    assert cycle.statement < lease
    assert beat.lock_wait <= beat.statement
    assert cycle.lock_wait <= cycle.statement
