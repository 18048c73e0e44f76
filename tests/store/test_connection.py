"""The settings of a connection that waits for nothing for longer than its bounds."""

from typing import Any

import pytest
from django.db import connection

from django_tasks.host.clocks import ticks
from django_tasks.store.connection import BUSY_SECONDS, _own_settings, tidy
from django_tasks.store.dialects import Bounds
from django_tasks.store.dialects.mysql import OLDEST_SECONDS
from django_tasks.store.dialects.sqlite import SQLite

BOUNDS = Bounds(lock_wait=5.5, statement=15.0)
BARE: dict[str, Any] = {"CONN_MAX_AGE": 0, "OPTIONS": {}}

POSTGRESQL = {
    "connect_timeout": 5,
    "tcp_user_timeout": 30_000,
    "keepalives_idle": 15,
    "keepalives_interval": 7,
    "keepalives_count": 3,
}
MYSQL = {"connect_timeout": 5, "read_timeout": 30, "write_timeout": 30}


@pytest.mark.parametrize(
    ("vendor", "expected"),
    [("postgresql", POSTGRESQL), ("mysql", MYSQL), ("sqlite", {"timeout": 5.5}), ("oracle", {})],
)
def test_a_connection_of_ours_is_bounded(vendor: str, expected: dict[str, Any]) -> None:
    project = {"NAME": "x", "CONN_MAX_AGE": 60, "OPTIONS": {"charset": "utf8"}}
    settings = _own_settings(vendor, project, BOUNDS)
    assert settings == {**project, "OPTIONS": {**expected, "charset": "utf8"}}
    assert project["OPTIONS"] == {"charset": "utf8"}


@pytest.mark.parametrize(
    ("vendor", "age", "ours"),
    [
        ("postgresql", 0, None),
        ("sqlite", 0, None),
        ("postgresql", None, None),
        ("postgresql", 600, 600),
        ("mysql", 0, OLDEST_SECONDS),
        ("mysql", None, OLDEST_SECONDS),
        ("mysql", 600, OLDEST_SECONDS),
        ("mysql", 60, 60),
    ],
)
def test_a_connection_of_ours_lasts_and_is_closed_before_mysql_would(
    vendor: str, age: int | None, ours: int | None
) -> None:
    settings = _own_settings(vendor, {"CONN_MAX_AGE": age, "OPTIONS": {}}, BOUNDS)
    assert settings["CONN_MAX_AGE"] == ours


def test_a_bound_is_never_none_at_all() -> None:
    settings = _own_settings("postgresql", BARE, Bounds(0.1, 0.1))
    assert settings["OPTIONS"] == {
        "connect_timeout": 2,
        "tcp_user_timeout": 2000,
        "keepalives_idle": 1,
        "keepalives_interval": 1,
        "keepalives_count": 3,
    }


def test_what_the_project_bounds_itself_stands_and_a_pool_goes() -> None:
    project = {**BARE, "OPTIONS": {"pool": True, "connect_timeout": 60}}
    settings = _own_settings("postgresql", project, BOUNDS)
    assert settings["OPTIONS"] == {**POSTGRESQL, "connect_timeout": 60}


def test_a_session_of_sqlite_waits_for_its_turn_as_long_as_the_bound_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []
    dialect = SQLite(connection)
    monkeypatch.setattr(dialect, "fetch", sent.append)
    dialect.bound(BOUNDS)
    assert sent == ["PRAGMA busy_timeout = 5500"]


class Kept:
    """A connection as Django keeps it between requests: closed if it is older than ``close_at``."""

    def __init__(self, close_at: float | None) -> None:
        self.close_at = close_at
        self.connection = object()
        self.is_open = True
        self.queries_log = ()

    def close_if_unusable_or_obsolete(self) -> None:
        if self.close_at is not None and ticks() >= self.close_at:
            self.is_open = False


@pytest.mark.parametrize(
    ("age", "is_busy", "stays"),
    [
        (0.0, False, False),
        (0.0, True, True),
        (BUSY_SECONDS, True, False),
        (None, True, True),
        (None, False, True),
        (-60.0, False, True),
    ],
)
def test_a_busy_thread_keeps_its_connection_a_second_longer(
    age: float | None, is_busy: bool, stays: bool
) -> None:
    close_at = None if age is None else ticks() - age
    kept: Any = Kept(close_at)
    tidy([kept], is_busy=is_busy)
    assert (kept.is_open, kept.close_at) == (stays, close_at)
