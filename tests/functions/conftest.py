"""Django's tasks framework is there from Django 6.0 on: the sessions with 5.2 leave these out."""

from collections.abc import Iterator
from typing import Any

import django
import pytest
from django.test import override_settings

from tests.worker import conftest

collect_ignore_glob = ["test_*.py"] if django.VERSION < (6, 0) else []

BACKENDS: dict[str, Any] = {
    "default": {"BACKEND": "django_tasks.backend.DatabaseBackend", "QUEUES": []},
    "other": {
        "BACKEND": "django_tasks.backend.DatabaseBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"MAX_ATTEMPTS": 2, "BACKOFF": 0},
    },
    "dummy": {"BACKEND": "django.tasks.backends.dummy.DummyBackend", "QUEUES": []},
    "immediate": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend", "QUEUES": []},
    "outbox": {
        "BACKEND": "django_tasks.backend.OutboxBackend",
        "QUEUES": [],
        "OPTIONS": {"TO": "immediate", "BACKOFF": 0},
    },
}

if not collect_ignore_glob:
    with override_settings(TASKS=BACKENDS):
        from tests.functions import functions

in_one_transaction = conftest.in_one_transaction


@pytest.fixture(autouse=True)
def calls(settings: Any) -> Iterator[list[Any]]:
    """The arguments of the calls that this test runs."""
    settings.TASKS = BACKENDS
    functions.CALLS.clear()
    yield functions.CALLS
    functions.CALLS.clear()
