"""Transactions that are repeated when somebody else was in the way, and those that never are."""

from typing import Any

import pytest
from django.db import (
    DatabaseError,
    IntegrityError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.test.utils import CaptureQueriesContext

from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import is_contention, retried, write_transaction
from tests.conftest import DEADLINE
from tests.factories import a_row, there_is
from tests.vendor import SQLITE, only_on

CONTENTION: dict[str, list[tuple[object, ...]]] = {
    "mysql": [(1205, "Lock wait timeout exceeded"), (1213, "Deadlock found"), (1020, "Changed")],
    "sqlite": [("database is locked",), ("database table is locked",)],
}


def contention_errors():
    """Errors of the driver, wrapped as Django does."""
    if connection.vendor == "postgresql":
        from psycopg import errors

        causes = [
            errors.SerializationFailure(),
            errors.DeadlockDetected(),
            errors.LockNotAvailable(),
        ]
    else:
        driver: Any = connection
        error = driver.Database.OperationalError
        causes = [error(*arguments) for arguments in CONTENTION[connection.vendor]]
    for cause in causes:
        wrapped = OperationalError(*cause.args)
        wrapped.__cause__ = cause
        yield wrapped


class Stubborn:
    """Fails so many times, and counts how often it was tried."""

    def __init__(self, error, failures=1):
        self.error, self.failures, self.tries = error, failures, 0

    def __call__(self, *, using):
        self.tries += 1
        if self.tries <= self.failures:
            raise self.error
        return "done"


@pytest.fixture
def three_retries(monkeypatch):
    monkeypatch.setattr(type(dialect_of("default")), "contention_retries", 3)


@pytest.mark.django_db(transaction=True)
def test_what_met_somebody_else_is_repeated(three_retries):
    for error in contention_errors():
        operation = Stubborn(error, failures=3)

        assert retried(operation.__call__)(using="default") == "done"
        assert operation.tries == 4


@pytest.mark.django_db(transaction=True)
def test_repeating_has_an_end(three_retries):
    for error in contention_errors():
        operation = Stubborn(error, failures=99)

        with pytest.raises(OperationalError):
            retried(operation.__call__)(using="default")
        assert operation.tries == 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", [DatabaseError, OperationalError, IntegrityError])
def test_any_other_error_is_not_repeated(kind, three_retries):
    operation = Stubborn(kind("something else"))

    with pytest.raises(kind):
        retried(operation.__call__)(using="default")
    assert operation.tries == 1


@pytest.mark.django_db(transaction=True)
def test_nothing_is_repeated_inside_a_callers_transaction(three_retries):
    for error in contention_errors():
        operation = Stubborn(error)

        with pytest.raises(OperationalError), transaction.atomic():
            retried(operation.__call__)(using="default")
        assert operation.tries == 1


@pytest.mark.django_db(transaction=True)
def test_nothing_is_repeated_in_a_transaction_that_the_caller_manages_by_hand(three_retries):
    """After a deadlock MySQL has rolled back all that the caller did before."""
    transaction.set_autocommit(False)
    try:
        for error in contention_errors():
            operation = Stubborn(error)

            with pytest.raises(OperationalError):
                retried(operation.__call__)(using="default")
            assert operation.tries == 1
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError("gone away"), DatabaseError(), ValueError(5)])
def test_other_errors_are_no_contention(error):
    assert not is_contention("default", error)


has_modes = only_on(SQLITE, because="only SQLite has a transaction_mode")


@pytest.fixture
def begins(monkeypatch):
    """Set SQLite's transaction_mode for new connections; answers with how a transaction begins."""

    def how(mode, action):
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "transaction_mode", mode)
        connections["default"].close()
        connection.connect()
        with CaptureQueriesContext(connection) as captured:
            action()
        return [query["sql"] for query in captured.captured_queries if "BEGIN" in query["sql"]]

    yield how
    monkeypatch.undo()
    connection.close()


def write():
    with write_transaction("default"):
        pass


def read():
    with transaction.atomic():
        pass


@has_modes
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", ["DEFERRED", "IMMEDIATE", None])
def test_a_transaction_that_will_write_holds_the_write_lock_from_its_start(begins, mode):
    assert begins(mode, write) == ["BEGIN IMMEDIATE"]


@has_modes
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", ["DEFERRED", "IMMEDIATE", None])
def test_transactions_of_the_project_begin_as_it_has_configured(begins, mode):
    def failing():
        with write_transaction("default"):
            raise ZeroDivisionError

    def all_three():
        write()
        with pytest.raises(ZeroDivisionError):
            failing()
        read()

    assert begins(mode, all_three)[-1] == " ".join(filter(None, ["BEGIN", mode]))


@has_modes
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", ["DEFERRED", "IMMEDIATE", None])
def test_the_first_transaction_of_a_thread_is_like_any_other(elsewhere, begins, mode):
    """Its connection is opened by the transaction itself."""

    def first():
        own = connections["default"]
        own.force_debug_cursor = True
        write()
        read()
        return [query["sql"] for query in own.queries if "BEGIN" in query["sql"]]

    begins(mode, read)
    as_configured = " ".join(filter(None, ["BEGIN", mode]))

    assert elsewhere(first).result(DEADLINE) == ["BEGIN IMMEDIATE", as_configured]


@pytest.mark.django_db(transaction=True)
def test_a_failed_transaction_leaves_nothing():
    def run():
        a_row()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), write_transaction("default"):
        run()
    assert not there_is()


@pytest.mark.django_db(transaction=True)
def test_inside_a_callers_transaction_it_is_a_part_of_it():
    def run():
        with write_transaction("default"):
            a_row("mine")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        run()
    assert not there_is("mine")


@pytest.mark.django_db(transaction=True)
def test_no_statement_beside_begin_starts_a_transaction(monkeypatch):
    """PostgreSQL's driver sends BEGIN by itself when autocommit is off; MariaDB's does not."""
    modes: list[bool] = []
    own: Any = connections["default"]
    to_set = own._set_autocommit

    def note(on: bool) -> None:
        modes.append(on)
        to_set(on)

    monkeypatch.setattr(own, "_set_autocommit", note)
    with CaptureQueriesContext(connection) as queries:
        write()
    begin, commit = (query["sql"] for query in queries)
    assert begin.startswith("START TRANSACTION" if connection.vendor == "mysql" else "BEGIN")
    assert commit == "COMMIT"
    assert (False in modes) == (connection.vendor == "postgresql")


@pytest.mark.django_db(transaction=True)
def test_a_transaction_leaves_the_connection_as_it_was():
    before = dict(vars(connections["default"]))
    with pytest.raises(ZeroDivisionError), write_transaction("default"):
        raise ZeroDivisionError
    after = vars(connections["default"])
    assert before.keys() == after.keys()
    assert after["autocommit"]
