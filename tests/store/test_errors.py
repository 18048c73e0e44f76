"""The kinds of database errors. A mistake here fails innocent tasks, or stops a worker."""

from typing import Any

import pytest
from django.db import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    connections,
    transaction,
)

from django_tasks.store import errors
from django_tasks.store.dialects import Dialect
from django_tasks.store.dialects.mysql import MariaDB, MySQL
from django_tasks.store.dialects.postgresql import PostgreSQL
from django_tasks.store.dialects.sqlite import SQLite
from django_tasks.store.errors import Kind, kind_of, was_cut_off
from tests.vendor import MARIADB, MYSQL, POSTGRESQL, SERVERS, database, only_on

WORLD, CONTENTION, DATA, REJECTED, UNKNOWN = Kind


def kind(
    monkeypatch: pytest.MonkeyPatch, server: type[Dialect], error: Error, cause: Exception
) -> Kind:
    error.__cause__ = cause
    monkeypatch.setattr(errors, "judge_of", lambda using: server(connections[using]))
    return kind_of(error, using="default")


class Cause(Exception):
    """An error as a driver raises it."""

    def __init__(self, *args: Any, **facts: Any) -> None:
        super().__init__(*args)
        self.__dict__.update(facts)


@pytest.mark.parametrize("server", [MySQL, MariaDB])
@pytest.mark.parametrize(
    ("number", "error", "expected"),
    [
        (3, InternalError, WORLD),  # no room for a file of the server
        (999, OperationalError, WORLD),
        (1015, OperationalError, WORLD),  # InnoDB was started read-only
        (1040, OperationalError, WORLD),  # too many connections
        (1047, OperationalError, WORLD),  # a Galera node without its cluster
        (1114, OperationalError, WORLD),  # the table is full
        (1290, OperationalError, WORLD),  # read-only
        (1874, OperationalError, WORLD),  # InnoDB is read-only
        (1927, OperationalError, WORLD),  # killed
        (1969, OperationalError, WORLD),  # max_statement_time
        (2006, OperationalError, WORLD),  # gone away
        (2013, InterfaceError, WORLD),  # lost during the query
        (3032, OperationalError, WORLD),  # offline mode
        (3100, OperationalError, WORLD),  # group replication has stopped
        (3118, OperationalError, WORLD),  # the account is locked
        (3169, OperationalError, WORLD),  # the session was killed
        (3675, OperationalError, WORLD),  # the disk is full
        (4031, OperationalError, WORLD),  # idle for too long
        (4094, OperationalError, WORLD),  # the group chooses a primary
        (4151, OperationalError, WORLD),  # MariaDB's account is locked
        (6400, OperationalError, WORLD),  # offline mode, with a reason
        (9001, OperationalError, WORLD),  # ProxySQL reaches no server
        (1205, OperationalError, CONTENTION),
        (1213, OperationalError, CONTENTION),
        (1412, OperationalError, CONTENTION),  # a table that was changed meanwhile
        (3101, OperationalError, CONTENTION),  # refused by the certification of a group
        (3572, OperationalError, CONTENTION),  # NOWAIT, on MySQL
        (2000, OperationalError, WORLD),  # of the client, which knows no better
        (9999, OperationalError, WORLD),
        (1000, OperationalError, UNKNOWN),
        (1999, OperationalError, UNKNOWN),
        (3000, OperationalError, UNKNOWN),
        (8999, OperationalError, UNKNOWN),
        (10_000, OperationalError, UNKNOWN),
        (1366, OperationalError, DATA),  # a character that the column cannot take
        (1406, DataError, DATA),
        (1526, OperationalError, DATA),  # no partition is for the row
        (3157, OperationalError, DATA),  # JSON that is too deep
        (1062, IntegrityError, DATA),
        (1142, OperationalError, UNKNOWN),  # no right to write this table
        (1105, OperationalError, UNKNOWN),
        (0, InterfaceError, WORLD),
    ],
)
def test_mysql_by_number(
    monkeypatch: pytest.MonkeyPatch,
    server: type[Dialect],
    number: int,
    error: type[Error],
    expected: Kind,
) -> None:
    assert kind(monkeypatch, server, error("text"), Cause(number, "text")) is expected


@pytest.mark.parametrize("server", [MySQL, MariaDB])
@pytest.mark.parametrize("arguments", [(), ("text",), (None, "text")], ids=str)
def test_an_error_of_mysqls_driver_may_have_no_number(
    monkeypatch: pytest.MonkeyPatch, server: type[Dialect], arguments: tuple[Any, ...]
) -> None:
    cause = Exception(*arguments)
    assert kind(monkeypatch, server, OperationalError("text"), cause) is WORLD
    assert kind(monkeypatch, server, DatabaseError("text"), cause) is UNKNOWN


@pytest.mark.parametrize(
    ("state", "error", "expected"),
    [
        ("08006", OperationalError, WORLD),
        ("25006", InternalError, WORLD),  # read-only
        ("53100", OperationalError, WORLD),  # the disk is full
        ("57014", OperationalError, WORLD),  # statement_timeout
        ("57P01", OperationalError, WORLD),
        ("58030", OperationalError, WORLD),  # of the server's disk
        (None, OperationalError, WORLD),
        ("40001", OperationalError, CONTENTION),
        ("40P01", OperationalError, CONTENTION),
        ("55P03", OperationalError, CONTENTION),
        ("22P05", DataError, DATA),
        ("22P05", DatabaseError, DATA),
        ("23514", DatabaseError, DATA),
        ("44000", DatabaseError, DATA),
        ("23514", IntegrityError, DATA),
        ("P0001", InternalError, DATA),
        ("54011", OperationalError, DATA),
        # An index entry that is too long; or the server takes no writes, lest numbers run out.
        ("54000", OperationalError, UNKNOWN),
        ("42501", DatabaseError, UNKNOWN),
        ("0A000", DatabaseError, UNKNOWN),
    ],
)
def test_postgresql_by_state(
    monkeypatch: pytest.MonkeyPatch, state: str | None, error: type[Error], expected: Kind
) -> None:
    assert kind(monkeypatch, PostgreSQL, error("text"), Cause("text", sqlstate=state)) is expected


@pytest.mark.parametrize(
    ("code", "error", "expected"),
    [
        (13, OperationalError, WORLD),  # full
        (8, OperationalError, WORLD),  # read-only
        (10 | 3 << 8, OperationalError, WORLD),  # an extended code of an input or output error
        (5, OperationalError, CONTENTION),
        (6 | 1 << 8, OperationalError, CONTENTION),
        (19, IntegrityError, DATA),
        (18, DataError, DATA),
        (1, OperationalError, UNKNOWN),
    ],
)
def test_sqlite_by_code(
    monkeypatch: pytest.MonkeyPatch, code: int, error: type[Error], expected: Kind
) -> None:
    cause = Cause("text", sqlite_errorcode=code)
    assert kind(monkeypatch, SQLite, error("text"), cause) is expected


@pytest.mark.parametrize("code", [18, 19, 20, 25], ids=lambda code: f"code {code}")
def test_of_the_data_on_sqlite(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    cause = Cause("text", sqlite_errorcode=code)
    assert kind(monkeypatch, SQLite, DatabaseError("text"), cause) is DATA


@pytest.mark.parametrize(
    "code", [3, 4, 7, 8, 9, 10, 11, 13, 14, 15, 17, 22, 23, 26], ids=lambda code: f"code {code}"
)
def test_of_the_world_on_sqlite(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    cause = Cause("text", sqlite_errorcode=code)
    assert kind(monkeypatch, SQLite, DatabaseError("text"), cause) is WORLD


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("database is locked", CONTENTION),
        ("database or disk is full", WORLD),
        ("attempt to write a readonly database", WORLD),
        ("unable to open database file", WORLD),
        ("database disk image is malformed", WORLD),
        ("file is not a database", WORLD),
        ("disk I/O error", WORLD),
        ("no such table: t_task", UNKNOWN),
    ],
)
def test_sqlite_without_codes_by_text(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: Kind
) -> None:
    """As Python 3.10 has it."""
    assert kind(monkeypatch, SQLite, DatabaseError(text), Cause(text)) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OverflowError("too large for SQLite"), DATA),
        (ValueError("an embedded NUL"), DATA),
        (TypeError("'NoneType' object is not subscriptable"), UNKNOWN),
        (AttributeError("'NoneType' object has no attribute 'settimeout'"), UNKNOWN),
    ],
    ids=repr,
)
def test_what_python_raises_on_the_way(error: Exception, expected: Kind) -> None:
    """PyMySQL fails so over a connection that another error has closed."""
    assert kind_of(error, using="default") is expected


# Statements that take longer than their bound


@pytest.mark.parametrize(
    ("server", "cause", "expected"),
    [
        (PostgreSQL, Cause("text", sqlstate="57014"), True),
        (PostgreSQL, Cause("text", sqlstate="57P01"), False),
        (MariaDB, Cause(1969, "text"), True),
        (MySQL, Cause(3024, "text"), True),
        (MySQL, Cause(2013, "text"), False),
        (SQLite, Cause("text", sqlite_errorcode=9), False),
    ],
    ids=repr,
)
def test_a_statement_that_was_cut_off_is_told_from_an_outage(
    monkeypatch: pytest.MonkeyPatch, server: type[Dialect], cause: Cause, expected: bool
) -> None:
    error = OperationalError("text")
    assert kind(monkeypatch, server, error, cause) is WORLD
    assert was_cut_off(error, using="default") is expected


TOO_LONG = {
    MARIADB: "SET STATEMENT max_statement_time = 0.01 FOR SELECT SLEEP(30)",
    # A SLEEP that is cut off answers with 1. Of a row that it was asked for, the error is told.
    MYSQL: "SELECT /*+ MAX_EXECUTION_TIME(10) */ 1 FROM (SELECT 1 UNION SELECT 2) AS two"
    " WHERE SLEEP(30) < 2",
    POSTGRESQL: "SET LOCAL statement_timeout = 10; SELECT pg_sleep(30)",
}


@only_on(*SERVERS, because="SQLite has no bound of statements")
@pytest.mark.django_db(transaction=True)
def test_that_is_what_the_server_says() -> None:
    with pytest.raises(OperationalError) as caught, transaction.atomic():
        connections["default"].cursor().execute(TOO_LONG[database()])
    assert kind_of(caught.value, using="default") is WORLD
    assert was_cut_off(caught.value, using="default")
