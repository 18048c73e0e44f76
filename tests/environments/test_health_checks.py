"""Connections that are looked at, a server that closes idle ones, and a row that is locked."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from django_tasks.models import Task
from tests.conftest import Elsewhere
from tests.environments.conftest import another_way
from tests.environments.workers import (
    HEARTBEAT,
    POLLER,
    Held,
    Start,
    kill,
    wait_for_beats,
    wait_for_judgement,
    watched,
)
from tests.vendor import SERVERS, only_on
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, handler

pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(*SERVERS, because="SQLite has no server that closes connections"),
]

# Heartbeats of two leases.
LONG = 7


@pytest.fixture(autouse=True)
def checked(transactional_db: None) -> Iterator[None]:
    """The settings that the system check recommends for connections that are kept."""
    wishes = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
    with another_way({**connection.settings_dict, **wishes}):
        yield


def test_a_row_locked_for_longer_than_a_lease_stops_neither_heartbeats_nor_other_tasks(
    start_worker: Start, held: Held, handlers: Any, elsewhere: Elsewhere
) -> None:
    """A view adds a task again that runs, and takes its time until its commit."""
    short = Held()
    handlers(handler(held, "long"), handler(short, "short"), handler(lambda task: None, "brief"))
    with watched() as watch:
        first = start_worker(lease=1.2, threads=3)
        added("1", "long")
        added("1", "short")
        eventually(lambda: held.inside and short.inside, "both run")
        other = start_worker(lease=1.2, codes=("long", "short"))
        wait_for_judgement(first, other)
        closed = watch.sessions(POLLER, HEARTBEAT)
        kill(closed)
        eventually(
            lambda: len(watch.sessions(POLLER, HEARTBEAT) - closed) == 4, "they are connected again"
        )
        with transaction.atomic():
            added("1", "short")
            short.open.set()
            eventually(lambda: not short.inside, "the run has ended, its end cannot be written")
            wait_for_beats(LONG // 2, first, other)
            # MariaDB has locked the gap before the view's key, where this one must not come.
            elsewhere(added, "1", "brief").result(DEADLINE)
            wait_for_beats(LONG // 2, first, other)
            elsewhere(wait_until_gone, "brief").result(DEADLINE)
        eventually(lambda: not Task.objects.filter(biz_code="short"), "short has run again")
    assert held.inside == ["long/1"]
    assert held.overlaps == short.overlaps == []


def wait_until_gone(code: str) -> None:
    eventually(lambda: not Task.objects.filter(biz_code=code), f"{code} has run", deadline=5)
