"""Other ways to the test database, as projects have them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from tests.habits import pgbouncer as program


@contextmanager
def another_way(settings: dict[str, Any]) -> Iterator[None]:
    """Have all new connections to the test database made by these settings, in every thread."""
    usual: Any = connections["default"]
    usual.close()
    usual_settings = connections.settings["default"]
    connections.settings["default"] = settings
    other: Any = connections.create_connection("default")
    connections["default"] = other
    try:
        yield
    finally:
        other.close()
        if other.vendor == "postgresql":
            other.close_pool()
        connections.settings["default"] = usual_settings
        connections["default"] = usual


@pytest.fixture
def pooled(transactional_db: None) -> Iterator[None]:
    """Connections from Django's pool."""
    server = connections["default"].settings_dict
    pool = {"min_size": 1, "max_size": 6}
    with another_way({**server, "OPTIONS": {**server["OPTIONS"], "pool": pool}}):
        yield


@pytest.fixture
def bounced(transactional_db: None) -> Iterator[None]:
    """Connections through a PgBouncer in transaction mode, to one session for all."""
    if program.PROGRAM is None:
        if os.environ.get("REQUIRE_ALL_DATABASES", "0") not in ("", "0"):
            pytest.fail(program.WHY_MISSING)
        pytest.skip(reason=f"PgBouncer is left out: {program.WHY_MISSING}")
    server = connections["default"].settings_dict
    with program.pgbouncer(server) as settings, another_way(settings):
        yield
