"""A server that has no connection left just when a worker opens its second one."""

from threading import current_thread
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_tasks.models import Task
from tests.environments.workers import POLLER, Start
from tests.waiting import eventually
from tests.worker.parts import added, handler

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_poller_that_gets_no_connection_at_first_tries_again(
    handlers: Any, start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeats got the last one. To tell what the refusal means, nothing may be asked."""
    kind = type(connections["default"])
    refused: list[Any] = []
    connect = kind.get_new_connection

    def full(self: Any, params: Any) -> Any:
        if current_thread().name == POLLER and len(refused) < 4:
            refused.append(params)
            raise OperationalError(1040, "Too many connections")
        return connect(self, params)

    monkeypatch.setattr(kind, "get_new_connection", full)
    handlers(handler(lambda task: None))
    added()
    worker = start_worker()
    eventually(lambda: not Task.objects.exists() or worker.failed, "the task is done")
    assert len(refused) == 4
    assert not worker.failed
