"""Other ways to the test database, as projects have them, and workers that end with the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from tests.environments import pgbouncer as program
from tests.environments.workers import Held, Start
from tests.vendor import fail_for_want
from tests.worker.parts import starting


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
        fail_for_want(f"PgBouncer is missing: {program.WHY_MISSING}")
    server = connections["default"].settings_dict
    with program.pgbouncer(server) as settings, another_way(settings):
        yield


@pytest.fixture
def start_worker(transactional_db: None, handlers: Any) -> Iterator[Start]:
    """Start a worker in this process, and wait until it is there; it ends with the test."""
    with starting(poll_interval=0.1, lease=1.5) as start:
        yield start


@pytest.fixture
def held(start_worker: Start) -> Iterator[Held]:
    """A handler whose runs end with the test."""
    held = Held()
    yield held
    held.open.set()
