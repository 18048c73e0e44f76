"""A database that is down: an answer all the same, soon, with one sentence in the log."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from django.db import connection, connections, transaction

from django_tasks.metrics.collector import BOUNDS
from django_tasks.models import Task
from django_tasks.store import clock
from tests.environments.conftest import another_way
from tests.metrics.reading import scrape
from tests.proxy import Proxy
from tests.vendor import ON_SQLITE, SERVERS, only_on

pytestmark = pytest.mark.django_db(transaction=True)

on_servers = only_on(*SERVERS, because="a file is there or not")


@contextmanager
def down(settings: dict[str, Any], tmp_path: Path) -> Iterator[None]:
    """Have the database refuse each new connection."""
    if ON_SQLITE:
        with another_way({**settings, "NAME": str(tmp_path / "none" / "x.sqlite3")}):
            yield
        return
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))  # nobody listens
        place = {"HOST": "127.0.0.1", "PORT": str(door.getsockname()[1])}
        with another_way({**settings, **place}):
            yield


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "metrics" in record.getMessage()]


@pytest.mark.parametrize("is_known", [True, False], ids=["clock is known", "nothing is known"])
def test_a_database_that_is_down_is_told_as_such_and_nothing_else_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_known: bool, handlers: Any
) -> None:
    caplog.set_level(logging.INFO, "django_tasks")
    clock._readings.pop("default", None)
    if is_known:
        assert scrape().get("up") == 1
    with down(dict(connections["default"].settings_dict), tmp_path):
        for _ in range(3):
            found = scrape()
            assert found.get("up") == 0
            assert found.of("default") == {"django_tasks_up"}
        (said,) = warnings(caplog)
        assert said.exc_info is None
        assert "\n" not in said.getMessage()
        assert "default" in said.getMessage()
    clock._readings.pop("default", None)
    assert scrape().get("up") == 1
    assert [record.levelname for record in warnings(caplog)] == ["WARNING", "INFO"]


def test_one_that_is_down_hides_no_other(second: str, tmp_path: Path, handlers: Any) -> None:
    with down(dict(connections["default"].settings_dict), tmp_path):
        found = scrape(["default", second])
    assert found.get("up") == 0
    assert found.of("default") == {"django_tasks_up"}
    assert found.get("up", database=second) == 1
    assert "django_tasks_workers" in found.of(second)


def test_a_database_without_our_tables_is_none_that_is_up(handlers: Any) -> None:
    with connection.schema_editor() as editor:
        editor.alter_db_table(Task, "t_task", "t_task_elsewhere")
    try:
        assert scrape().get("up") == 0
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(Task, "t_task_elsewhere", "t_task")


@on_servers
def test_a_server_that_says_nothing_costs_some_seconds(handlers: Any) -> None:
    settings = dict(connections["default"].settings_dict)
    with Proxy.before(settings) as proxy:
        place = {"HOST": "127.0.0.1", "PORT": str(proxy.port)}
        with another_way({**settings, **place}):
            assert scrape().get("up") == 1
            proxy.stall()
            started = monotonic()
            assert scrape().get("up") == 0
            assert monotonic() - started < 3 * (BOUNDS.lock_wait + BOUNDS.statement)
            proxy.heal()


@on_servers
def test_it_leaves_the_connection_of_the_thread_alone(handlers: Any) -> None:
    usual = connections["default"]
    usual.ensure_connection()
    session = usual.connection
    scrape()
    assert connections["default"] is usual
    assert usual.connection is session


def test_in_a_transaction_of_the_caller_it_is_part_of_it(handlers: Any) -> None:
    usual = connections["default"]
    with transaction.atomic():
        assert scrape().get("up") == 1
        assert connections["default"] is usual
        assert usual.in_atomic_block
