"""A log filter of the project's that raises: no run has another end for it."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_tasks import signals
from tests.waiting import eventually
from tests.worker.conftest import Register
from tests.worker.parts import added, heard, row, starting

pytestmark = pytest.mark.django_db(transaction=True)

LOGGER = logging.getLogger("django_tasks")


@pytest.fixture(autouse=True)
def _raising(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(record: logging.LogRecord) -> bool:
        raise KeyError("a field that this line does not have")

    monkeypatch.setattr(logging, "raiseExceptions", False)
    LOGGER.setLevel(logging.DEBUG)
    LOGGER.addFilter(refuse)
    yield
    LOGGER.removeFilter(refuse)
    LOGGER.setLevel(logging.NOTSET)


def works(task: Any) -> None: ...


def leaves_a_transaction(task: Any) -> None:
    transaction.atomic().__enter__()


def fails_once(task: Any) -> None:
    if task.attempt == 1:
        raise ValueError("the first time")


@pytest.mark.parametrize("work", [works, leaves_a_transaction, fails_once])
def test_a_line_that_cannot_be_said_changes_no_end(register: Register, work: Any) -> None:
    register(work, max_attempts=2, backoff=0)
    added()
    with heard(signals.task_succeeded) as told, starting(threads=1, poll_interval=0.05) as start:
        start()
        eventually(lambda: row() is None, "it is done")
    assert [each["task"].attempt for each in told] == [2 if work is fails_once else 1]
