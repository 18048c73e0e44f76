"""A database of its own for each test: nothing is in it, and it is gone afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests.importers.old import Old
from tests.site.conftest import database as database
from tests.vendor import ON_SQLITE, VENDOR

FRESH = "fresh"


@pytest.fixture
def fresh(django_db_blocker: Any, tmp_path: Path) -> Iterator[str]:
    """The alias of an empty database."""
    name = str(tmp_path / "fresh.sqlite3") if ON_SQLITE else f"test_fresh_{os.getpid()}"
    with django_db_blocker.unblock():
        _on_server(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        connections.settings[FRESH] = {**connections.settings["default"], "NAME": name}
        try:
            yield FRESH
        finally:
            connections[FRESH].close()
            del connections[FRESH], connections.settings[FRESH]
            _on_server(f"DROP DATABASE {name}{' WITH (FORCE)' if VENDOR == 'postgresql' else ''}")


def _on_server(*statements: str) -> None:
    if ON_SQLITE:
        return
    usual: Any = connections["default"]
    with usual._nodb_cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture
def old(fresh: str) -> Old:
    """The forerunner's table in such a database."""
    return Old(fresh)
