"""Habits that Django's documentation allows, on the connections of a worker's own threads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from django.db import Error, OperationalError, connections, transaction
from django.db.backends.signals import connection_created

from django_tasks.models import Pause
from django_tasks.store.connection import (
    close_connections,
    drop_connection,
    keep_connection,
    take_connection,
)
from django_tasks.store.dialects import Bounds
from django_tasks.store.dialects.mysql import OLDEST_SECONDS
from django_tasks.store.errors import Kind, kind_of
from django_tasks.wakeup import postgres
from tests.conftest import Elsewhere
from tests.environments.conftest import another_way
from tests.vendor import MARIADB, POSTGRESQL, VENDOR, only_on
from tests.waiting import DEADLINE, never

pytestmark = pytest.mark.django_db(transaction=True)

OURS = Bounds(lock_wait=3.0, statement=11.0)
# The bounds of a session, and how a project sets its own for all of its connections.
SHOW, SHOWN, SETS = {
    "mysql": (
        "SELECT @@SESSION.innodb_lock_wait_timeout, @@SESSION.lock_wait_timeout",
        (3, 3),
        "SET SESSION innodb_lock_wait_timeout = 500, SESSION lock_wait_timeout = 500",
    ),
    "postgresql": (
        "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')",
        ("3s", "11s"),
        "SET lock_timeout = 0; SET statement_timeout = 0",
    ),
    "sqlite3": ("PRAGMA busy_timeout", (3000,), "PRAGMA busy_timeout = 60000"),
}[VENDOR]

Receiver = Callable[..., None]


@contextmanager
def received(receiver: Receiver) -> Iterator[None]:
    connection_created.connect(receiver, weak=False)
    try:
        yield
    finally:
        connection_created.disconnect(receiver)


def shown() -> tuple[Any, ...]:
    with connections["default"].cursor() as cursor:
        cursor.execute(SHOW)
        row: tuple[Any, ...] = cursor.fetchone()
        return row


def of_a_thread_of_ours(*steps: Callable[[], Any], bounds: Bounds = OURS) -> list[Any]:
    """The answers of ``steps``, called in a thread with a connection of its own."""
    take_connection("default", bounds)
    try:
        return [step() for step in steps]
    finally:
        close_connections()


def keep() -> None:
    keep_connection("default")


def sets_its_own(*, connection: Any, **_: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(SETS)


def test_a_receiver_that_sets_time_outs_does_not_set_those_of_a_worker(
    elsewhere: Elsewhere,
) -> None:
    with received(sets_its_own):
        answers = elsewhere(of_a_thread_of_ours, keep, shown).result(DEADLINE)
    assert answers[-1] == SHOWN


def test_nor_after_a_connection_was_replaced_inside_django(elsewhere: Elsewhere) -> None:
    """As a health check does: inside ``cursor()``."""

    def replace() -> None:
        connections["default"].close()

    with received(sets_its_own):
        answers = elsewhere(of_a_thread_of_ours, keep, replace, shown).result(DEADLINE)
    assert answers[-1] == SHOWN


@pytest.mark.parametrize("error", [OperationalError, ValueError])
def test_a_receiver_that_raises_once_leaves_no_session_without_bounds(
    elsewhere: Elsewhere, error: type[Exception]
) -> None:
    raised: list[Exception] = []

    def raises_once(**_: Any) -> None:
        if not raised:
            raised.append(error("once"))
            raise raised[0]

    def fail() -> None:
        with pytest.raises(error):
            keep()

    # Before ours: receivers are called in the order in which they were connected.
    ours, connection_created.receivers = connection_created.receivers, []
    kept = {**connections["default"].settings_dict, "CONN_MAX_AGE": None}
    try:
        with another_way(kept), received(raises_once):
            connection_created.receivers += ours
            connection_created.sender_receivers_cache.clear()
            answers = elsewhere(of_a_thread_of_ours, fail, keep, shown).result(DEADLINE)
    finally:
        connection_created.receivers = ours
        connection_created.sender_receivers_cache.clear()
    assert answers[-1] == SHOWN


# Time-outs in the settings of a project. The widest spread lines for SQLite have one, too.
LONG_WAITS = {
    "mysql": {"init_command": SETS},
    "postgresql": {"options": "-c lock_timeout=500s -c statement_timeout=500s"},
    "sqlite3": {"init_command": "PRAGMA journal_mode=WAL; PRAGMA busy_timeout=60000;"},
}[VENDOR]


def test_a_time_out_in_the_settings_is_not_that_of_a_worker(
    transactional_db: None, elsewhere: Elsewhere
) -> None:
    settings = connections["default"].settings_dict
    options = {**settings["OPTIONS"], **LONG_WAITS}
    with another_way({**settings, "OPTIONS": options}):
        answers = elsewhere(of_a_thread_of_ours, keep, shown).result(DEADLINE)
        dropped = elsewhere(
            of_a_thread_of_ours, keep, lambda: drop_connection("default"), keep, shown
        ).result(DEADLINE)
    assert (answers[-1], dropped[-1]) == (SHOWN, SHOWN)


# Servers, roles and settings that end idle sessions: how a project says so, and what shows it.
IDLE, SHOW_IDLE = {
    "mysql": (
        {"init_command": "SET SESSION wait_timeout = 1"},
        f"SELECT @@SESSION.wait_timeout = {2 * OLDEST_SECONDS}",
    ),
    "postgresql": (
        {"options": "-c idle_session_timeout=300"},
        "SELECT current_setting('idle_session_timeout') = '0'",
    ),
    "sqlite3": ({}, "SELECT 1"),
}[VENDOR]


@pytest.fixture
def impatient(transactional_db: None) -> Iterator[None]:
    """A server that ends sessions which have nothing to do."""
    settings = connections["default"].settings_dict
    with another_way({**settings, "OPTIONS": {**settings["OPTIONS"], **IDLE}}):
        yield


@pytest.mark.usefixtures("impatient")
def test_a_session_of_a_worker_may_be_idle(elsewhere: Elsewhere) -> None:
    """An idle worker polls and beats more seldom than some servers have patience."""

    def may_be_idle() -> bool:
        with connections["default"].cursor() as cursor:
            cursor.execute(SHOW_IDLE)
            return bool(cursor.fetchone()[0])

    assert elsewhere(of_a_thread_of_ours, keep, may_be_idle).result(DEADLINE)[-1]


@only_on(MARIADB, POSTGRESQL, because="MySQL has one bound for all that is idle")
def test_a_client_that_is_gone_in_a_transaction_holds_its_locks_no_longer_than_it_may(
    elsewhere: Elsewhere,
) -> None:
    """A proxy or a firewall may keep its connection open for hours."""
    Pause.objects.create(queue="held")
    locked, over = Event(), Event()

    def is_gone_for_a_while() -> Kind:
        with pytest.raises(Error) as caught, transaction.atomic():  # noqa: PT012
            Pause.objects.update(biz_code="never committed")
            locked.set()
            assert over.wait(DEADLINE)
            Pause.objects.update(biz_code="never sent")
        return kind_of(caught.value, using="default")

    bounds = Bounds(lock_wait=1.0, statement=0.5)
    gone = elsewhere(of_a_thread_of_ours, is_gone_for_a_while, bounds=bounds)
    try:
        assert locked.wait(DEADLINE)
        assert Pause.objects.update(biz_code="somebody else's") == 1
    finally:
        over.set()
    assert gone.result(DEADLINE) == [Kind.WORLD]
    assert Pause.objects.get().biz_code == "somebody else's"


@only_on(POSTGRESQL, because="only PostgreSQL sends hints")
@pytest.mark.usefixtures("impatient")
def test_the_session_that_listens_may_be_idle(elsewhere: Elsewhere) -> None:
    heard = Event()
    listener = postgres.Listener("default", lambda lot: True)
    listening = elsewhere(listener.listen, lambda overdue: heard.set())
    try:
        assert heard.wait(DEADLINE)
        never(listening.done, "its session was ended", seconds=1)
    finally:
        listener.stop()
        listening.exception(DEADLINE)
        listener.close()
