"""Fixtures of every test. Times are passed in, other connections live in other threads."""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import enumerate as enumerate_threads
from typing import Any

import pytest
from django.core.management.commands import flush
from django.db import connections
from django.test import TransactionTestCase
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from django_tasks.client import arguments
from django_tasks.handlers import registry
from django_tasks.store import clock
from django_tasks.store.dialects import base
from django_tasks.store.dialects.sqlite import SQLite
from tests.asking import asks, refuse_all
from tests.factories import NOW
from tests.proxy import Proxy
from tests.vendor import ON_SQLITE, is_on
from tests.waiting import eventually
from tests.worker import parts

hypothesis_settings.register_profile(
    "ci",
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=False,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
hypothesis_settings.load_profile("ci")

# How long a test waits for something that must happen.
DEADLINE = 20.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what other sessions run: tests of other databases, and those that ask none."""
    elsewhere = {
        item
        for item in items
        if not (ON_SQLITE or asks(item))
        or not all(is_on(*mark.args) for mark in item.iter_markers("only_on"))
    }
    if elsewhere:
        config.hook.pytest_deselected(items=[*elsewhere])
        items[:] = [item for item in items if item not in elsewhere]


def pytest_collection_finish() -> None:
    """Let the collector pass over what stays: to go through thousands of tests took it half a
    second each time, which tests that collect garbage do often.
    """
    gc.collect()
    gc.freeze()


# What migrations have written there is the same after each test.
MIGRATED = ("django_content_type", "auth_permission")
IF_FILLED = "SELECT {} WHERE EXISTS (SELECT 1 FROM {})"


@pytest.fixture(scope="session", autouse=True)
def _permissions_stay() -> Iterator[None]:
    """Empty tables after a test that commits: those that have rows, and not those of permissions.

    Django would make permissions anew, in 0.03 s. PostgreSQL took 0.2 s to truncate 30 tables, of
    which most tests write into one or two.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(flush, "emit_post_migrate_signal", lambda *_: None)
        patched.setattr(flush, "sql_flush", _statements_that_empty)
        yield


@pytest.fixture(scope="session", autouse=True)
def _schedules_are_kept_to_the_end() -> Iterator[None]:
    """Wait, before the tables are emptied, for the threads that look after schedules.

    No worker waits for its own at its end. On a busy machine one went on into the next test, or
    kept a connection when the database was dropped.
    """
    empty = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]

    def wait_and_empty(case: TransactionTestCase) -> None:
        eventually(lambda: not _at_schedules(), "nobody looks after schedules")
        empty(case)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TransactionTestCase, "_fixture_teardown", wait_and_empty)
        yield


def _at_schedules() -> list[str]:
    names = [each.name for each in enumerate_threads()]
    return [name for name in names if name.startswith("django_tasks-schedules")]


def _statements_that_empty(style: Any, connection: Any, **wishes: bool) -> list[str]:
    there = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = _filled(connection, [table for table in there if table not in MIGRATED])
    # PostgreSQL wants what refers to them to be emptied as well.
    wishes["allow_cascade"] = connection.vendor == "postgresql"
    emptying: list[str] = connection.ops.sql_flush(style, tables, **wishes)
    return emptying


def _filled(connection: Any, tables: list[str]) -> list[str]:
    quoted = enumerate(map(connection.ops.quote_name, tables))
    asked = " UNION ALL ".join(IF_FILLED.format(*each) for each in quoted)
    with connection.cursor() as cursor:
        cursor.execute(asked)
        return [tables[number] for (number,) in cursor.fetchall()]


@pytest.fixture(autouse=True)
def _says_if_it_asks(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any
) -> Iterator[None]:
    asked = [] if asks(request.node) else refuse_all(monkeypatch, django_db_blocker)
    yield
    assert not asked


@pytest.fixture(autouse=True)
def _codes_without_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say nothing of codes that no handler has: most tests have none, and it is said but once."""
    monkeypatch.setattr(arguments, "_warn_once", lambda code: None)


@pytest.fixture(autouse=True)
def _timeouts() -> Iterator[None]:
    """End, after the test, the threads that see to the timeouts of its runners."""
    yield
    while parts.made:
        parts.made.pop().close()


@pytest.fixture
def handlers() -> Iterator[Callable[..., None]]:
    """An empty registry for this test; call it to register handlers."""
    known, problems = dict(registry._handlers), list(registry._problems)
    registry.forget()

    def register(*wanted: Any) -> None:
        for handler in wanted:
            registry.register_task_handler(handler)

    yield register
    registry.forget()
    registry._handlers.update(known)
    registry._problems.extend(problems)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """The clients' clock, stopped."""
    monkeypatch.setattr(clock, "now", lambda using: NOW)
    return NOW


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> parts.Ticks:
    """Time that the test pushes forward, for the host and for the database alike."""
    ticks = parts.Ticks()
    monkeypatch.setattr(base, "ticks", ticks)
    for dialect in (base.Dialect, SQLite):
        monkeypatch.setattr(dialect, "utc", _moved(dialect.utc, ticks))
    return ticks


def _moved(utc: Callable[..., datetime], ticks: parts.Ticks) -> Callable[..., datetime]:
    return lambda dialect, value: utc(dialect, value) + timedelta(seconds=ticks.ahead)


Elsewhere = Callable[..., "Future[Any]"]


@pytest.fixture
def elsewhere(transactional_db: None) -> Iterator[Elsewhere]:
    """Run a function in a thread of its own, on connections of its own."""
    pool = ThreadPoolExecutor(max_workers=16)

    def submit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]":
        def run() -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                connections.close_all()

        return pool.submit(run)

    yield submit
    pool.shutdown(cancel_futures=True)


@pytest.fixture
def proxy(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before the test database, by which other threads connect from now on."""
    connections["default"].ensure_connection()
    with Proxy.before(connections["default"].settings_dict) as proxy:
        databases = connections.settings["default"]
        monkeypatch.setitem(databases, "PORT", proxy.port)
        yield proxy


@pytest.fixture
def queries(db: None) -> Callable[[], CaptureQueriesContext]:
    """A context that keeps the statements sent to the default database."""
    return lambda: CaptureQueriesContext(connections["default"])
