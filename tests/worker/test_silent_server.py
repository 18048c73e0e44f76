"""A server that falls silent while a task runs: what the package asks in a run has an end."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_tasks.models import Task
from django_tasks.store.connection import USUAL_LEASE
from tests.proxy import Proxy
from tests.vendor import POSTGRESQL, only_on
from tests.waiting import eventually
from tests.worker.conftest import Register
from tests.worker.parts import added, row, starting, stored

pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(POSTGRESQL, because="the drivers of the others bound each wait"),
]
LEASE = 1.0


def ends(register: Register, proxy: Proxy, step: Callable[[Any], None], **terms: Any) -> list[int]:
    """Run a task in which the server falls silent before ``step``; the attempts until it ended."""
    attempts: list[int] = []

    def handle(task: Any) -> None:
        attempts.append(task.attempt)
        assert Task.objects.exists()
        if len(attempts) == 1:
            proxy.silence()
            step(task)

    register(handle, backoff=0, **terms)
    added()
    with starting(threads=1, poll_interval=0.05, lease=LEASE) as start:
        start()
        eventually(lambda: row() is None, "it has ended", deadline=USUAL_LEASE / 2)
    return attempts


def nothing(task: Any) -> None:
    """All that is asked after it is the package's own."""


def save(task: Any) -> None:
    task.biz_ext = {"step": 1}
    task.save()


def break_the_connection_before(task: Any) -> None:
    """Django asks whether it is usable, after an error."""
    transaction.get_connection().errors_occurred = True


def test_the_end_of_an_atomic_run(register: Register, proxy: Proxy) -> None:
    assert ends(register, proxy, nothing, atomic=True) == [1, 1]


@pytest.mark.parametrize("atomic", [False, True])
def test_what_a_run_saves(register: Register, proxy: Proxy, atomic: bool) -> None:
    attempts = ends(register, proxy, save, atomic=atomic)
    assert len(attempts) == 2


def test_a_look_at_its_connection(register: Register, proxy: Proxy) -> None:
    assert ends(register, proxy, break_the_connection_before) == [1]
    with pytest.raises(Task.DoesNotExist):
        stored()
