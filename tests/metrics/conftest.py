"""Answers as Prometheus reads them, and workers that end with the test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks.metrics import page
from django_tasks.worker.worker import Worker
from tests.worker.parts import starting


@pytest.fixture(autouse=True)
def _new_registries() -> Iterator[None]:
    """Forget the registries, and what they have kept, after each test."""
    yield
    page._registry.cache_clear()


@pytest.fixture
def start_worker(transactional_db: None, handlers: Any) -> Iterator[Callable[..., Worker]]:
    """Start a worker in this process, and wait until it is there; it ends with the test."""
    with starting(poll_interval=0.05, lease=5.0) as start:
        yield start


@pytest.fixture
def second(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Another name of the test database."""
    connections.settings["second"] = dict(connections["default"].settings_dict)

    def ensured(connection: BaseDatabaseWrapper) -> None:
        if connection.connection is None:  # Django's own asks its test case, which knows one alias
            with connection.wrap_database_errors:
                connection.connect()

    with monkeypatch.context() as patched:
        patched.setattr(BaseDatabaseWrapper, "ensure_connection", ensured)
        yield "second"
    connections["second"].close()
    del connections["second"], connections.settings["second"]
