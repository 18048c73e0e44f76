"""A database for the project of a page: it is empty, and gone after the test."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from tests.vendor import ON_SQLITE, VENDOR

NAME = f"page_{os.getpid()}"
KEPT = ("ENGINE", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: Any) -> Iterator[dict[str, Any]]:
    """The settings of a database that the page has for itself."""
    default = settings.DATABASES["default"]
    kept = {key: default[key] for key in KEPT if key in default}
    if ON_SQLITE:
        yield kept | {"NAME": str(tmp_path / "db.sqlite3")}
        return
    with django_db_blocker.unblock():
        _on_server(lambda cursor: cursor.execute(f"CREATE DATABASE {NAME}"))
        try:
            yield kept | {"NAME": NAME}
        finally:
            _on_server(_drop_all)


def _on_server(work: Callable[[Any], None]) -> None:
    usual: Any = connections["default"]
    with usual._nodb_cursor() as cursor:
        work(cursor)


def _drop_all(cursor: Any) -> None:
    """Drop this database, and those that the page's tests have made beside it."""
    of_postgresql = VENDOR == "postgresql"
    cursor.execute(
        "SELECT datname FROM pg_database"
        if of_postgresql
        else "SELECT schema_name FROM information_schema.schemata"
    )
    for (name,) in cursor.fetchall():
        if name.startswith(NAME):
            cursor.execute(f"DROP DATABASE {name}{' WITH (FORCE)' if of_postgresql else ''}")
