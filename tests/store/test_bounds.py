"""Bounded waits that leave their session as it was."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from django_tasks.models import Pause
from django_tasks.store.dialects import dialect_of
from django_tasks.store.timeouts import bounded_transaction
from django_tasks.store.transactions import is_contention
from tests.conftest import Elsewhere
from tests.vendor import SERVERS, VENDOR, only_on
from tests.waiting import DEADLINE

pytestmark = pytest.mark.django_db(transaction=True)

ON_MYSQL = VENDOR == "mysql"
has_locks = only_on(*SERVERS, because="SQLite has no locks of rows")

Holding = Callable[[str], Any]


@pytest.fixture
def row() -> Pause:
    return Pause.objects.create(queue="held")


@pytest.fixture
def held(elsewhere: Elsewhere, row: Pause) -> Holding:
    """Somebody else's transaction, for the time of a ``with``, that began with a statement."""

    @contextmanager
    def holding(statement: str) -> Iterator[None]:
        begun, over = Event(), Event()

        def hold() -> None:
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(statement)
                    begun.set()
                    assert over.wait(DEADLINE)
            finally:
                begun.set()

        future = elsewhere(hold)
        assert begun.wait(DEADLINE)
        try:
            yield
        finally:
            over.set()
            future.result(DEADLINE)

    return holding


def settings() -> Any:
    """The bounds of a session, as it tells them."""
    with connection.cursor() as cursor:
        if ON_MYSQL:
            cursor.execute("SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout")
        else:
            cursor.execute("SELECT current_setting('lock_timeout')")
        return cursor.fetchone()


def change(seconds: float = 1.0) -> None:
    with bounded_transaction("default", seconds):
        Pause.objects.filter(queue="held").update(biz_code="changed")


ROW = "SELECT * FROM t_task_pause FOR UPDATE"


@has_locks
def test_a_wait_for_a_row_that_takes_longer_is_an_error(held: Holding) -> None:
    with held(ROW), pytest.raises(DatabaseError) as caught:
        change()
    assert is_contention("default", caught.value)
    change()
    assert Pause.objects.get().biz_code == "changed"


@has_locks
def test_a_wait_for_a_table_is_bounded_too(held: Holding, elsewhere: Elsewhere) -> None:
    """A migration waits for somebody's transaction, and all that come later wait behind it."""
    with held("SELECT * FROM t_task_pause"):
        migration = elsewhere(lock_table)
        try:
            with pytest.raises(DatabaseError) as caught:
                change_until_it_fails()
        finally:
            migration.cancel()
    assert is_contention("default", caught.value)
    migration.result(DEADLINE)


def change_until_it_fails() -> None:
    """As soon as the migration has come."""
    end = monotonic() + DEADLINE
    while monotonic() < end:
        change()


def lock_table() -> None:
    """Ask for the lock of a migration, and hold it for a moment."""
    with transaction.atomic(), connection.cursor() as cursor:
        if ON_MYSQL:
            cursor.execute("ALTER TABLE t_task_pause COMMENT = ''")
        else:
            cursor.execute("LOCK TABLE t_task_pause IN ACCESS EXCLUSIVE MODE")


@has_locks
@pytest.mark.parametrize("raised", [None, ZeroDivisionError, "contention"])
def test_the_session_is_as_it_was_before(held: Holding, raised: Any) -> None:
    with connection.cursor() as cursor:
        if ON_MYSQL:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 33, lock_wait_timeout = 44")
        else:
            cursor.execute("SET lock_timeout = '33s'")
    before = settings()
    try:
        if raised == "contention":
            with held(ROW), pytest.raises(DatabaseError):
                change()
        elif raised:
            with pytest.raises(raised), bounded_transaction("default", 1.0):
                raise raised
        else:
            change()
            with bounded_transaction("default", 1.0):
                assert settings() == ((1, 1) if ON_MYSQL else ("1s",))
        assert settings() == before
    finally:
        connection.close()


@pytest.fixture
def health_checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections that are kept, and looked at before they are used again."""
    connection.close()
    for name, value in {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}.items():
        monkeypatch.setitem(connection.settings_dict, name, value)
    yield
    connection.close()


@has_locks
@pytest.mark.usefixtures("health_checks")
def test_a_session_that_a_health_check_has_replaced_is_bounded_too(
    held: Holding, elsewhere: Elsewhere
) -> None:
    change()
    session = connection.connection
    with connection.cursor() as cursor:
        cursor.execute("SELECT connection_id()" if ON_MYSQL else "SELECT pg_backend_pid()")
        number = cursor.fetchone()

    def kill() -> None:
        with connection.cursor() as cursor:
            cursor.execute("KILL %s" if ON_MYSQL else "SELECT pg_terminate_backend(%s)", number)

    elsewhere(kill).result(DEADLINE)
    connection.close_if_unusable_or_obsolete()  # as before a request
    assert connection.connection is session
    with held(ROW), pytest.raises(DatabaseError) as caught:
        change()
    assert is_contention("default", caught.value)
    assert connection.connection is not session


def test_it_sees_what_was_committed_through_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    caught_up: list[bool] = []
    monkeypatch.setattr(
        type(dialect_of("default")),
        "catch_up",
        lambda self: caught_up.append(connection.in_atomic_block),
    )
    change()
    assert caught_up == [False]
