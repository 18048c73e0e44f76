"""Statements that a server rejects for what they say are told from what somebody may bring back."""

import sys
from typing import Any

import pytest
from django.db import Error, NotSupportedError, connections, transaction

from django_tasks.store import connection as sessions
from django_tasks.store import lanes, rejections
from django_tasks.store.dialects import dialect_of
from django_tasks.store.dialects.base import Dialect
from django_tasks.store.errors import Kind, kind_of
from django_tasks.store.rejections import rejection_of, session_rejection
from tests.vendor import ON_SQLITE, POSTGRESQL, VENDOR, only_on

pytestmark = pytest.mark.django_db(transaction=True)

# Of syntax, names, types and places: on each database.
WRONG = [
    "SELECT FROM WHERE",
    "SELECT nosuch FROM {task}",
    "SELECT nosuch(1)",
    "SELECT {when} FROM {task}, {task} AS other",
    "UPDATE {task} SET nosuch = 1",
    "INSERT INTO {task} (nosuch) VALUES (1)",
    "SELECT COUNT(COUNT(*)) FROM {task}",
    "SELECT 1 UNION SELECT 1, 2",
    "SELECT (SELECT id, version FROM {task})",
]
OF_VENDOR = {
    "sqlite3": ["SELECT LENGTH(1, 2)", " UNION ALL ".join(["SELECT 1"] * 600)],
    "postgresql": ["SET SESSION nosuch = 1", "SELECT 1::nosuch", "SELECT 1 + 'a'::text"],
    "mysql": [
        "SET SESSION nosuch = 1",
        "SET SESSION wait_timeout = 1.5",
        "SET SESSION version = 'x'",
        "SELECT CAST(1 AS nosuch)",
    ],
}


def error_of(statement: str, params: Any = ()) -> Error:
    with pytest.raises(Error) as caught:
        dialect_of("default").fetch(statement, params)
    return caught.value


@pytest.mark.parametrize("statement", [*WRONG, *OF_VENDOR[VENDOR]], ids=lambda text: text[:40])
def test_a_statement_that_no_other_try_would_mend_is_rejected(statement: str) -> None:
    error = error_of(statement)
    assert kind_of(error, using="default") is Kind.REJECTED
    rejection = rejection_of(error, using="default")
    assert rejection is not None
    # Python 3.10 tells no numbers of SQLite.
    assert rejection.number or (ON_SQLITE and sys.version_info < (3, 11))
    assert rejection.text
    assert rejection.text in str(error)


def test_a_server_that_is_too_old_stays_so() -> None:
    too_old = NotSupportedError("MySQL 8.0.11 or later is required (found 5.7.44).")
    rejection = rejection_of(too_old, using="default")
    assert rejection is not None
    assert rejection.sentence("default").endswith(f" works with its tables: {too_old}")


@only_on(POSTGRESQL, because="its errors say that they come from a function")
@pytest.mark.parametrize("slip", ["PERFORM nosuch(1)", "EXECUTE 'SELECT nosuch FROM t_task'"])
def test_a_slip_in_a_trigger_of_the_users_is_none_of_the_statement(slip: str) -> None:
    error = error_of(f"DO $$ BEGIN {slip}; END $$")
    assert kind_of(error, using="default") is not Kind.REJECTED


def test_a_table_that_is_not_there_may_come() -> None:
    assert kind_of(error_of("SELECT 1 FROM nosuch"), using="default") is not Kind.REJECTED


def test_nor_is_a_savepoint_that_is_gone_a_fault_of_the_statement() -> None:
    with pytest.raises(Error) as caught, transaction.atomic():
        connections["default"].cursor().execute("ROLLBACK TO SAVEPOINT nosuch")
    assert kind_of(caught.value, using="default") is not Kind.REJECTED


def test_it_names_the_function_that_has_sent_it_and_its_purpose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch = Dialect.fetch
    monkeypatch.setattr(
        Dialect, "fetch", lambda self, *args: fetch(self, "SELECT nosuch FROM {task}")
    )
    with pytest.raises(Error) as caught:
        lanes.look(using="default")
    rejection = rejection_of(caught.value, using="default")
    assert rejection is not None
    assert rejection.place.startswith("django_tasks.store.lanes.")
    assert rejection.sentence("default").startswith(
        "The database default rejects a statement by which django_tasks looks for due tasks: "
        + f"{rejection.number} ".lstrip()  # Python 3.10's sqlite3 tells no number
    )


def test_each_purpose_is_that_of_a_module() -> None:
    for module in rejections._PURPOSES:
        __import__(module)


def test_a_session_is_tried_out_as_a_worker_has_it_and_closed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = connections["default"]
    assert session_rejection("default") is None
    assert connections["default"] is own

    def bound(self: Dialect, bounds: Any) -> None:
        self.fetch("SELECT nosuch FROM {task}")

    monkeypatch.setattr(type(dialect_of("default")), "bound", bound)
    rejection = session_rejection("default")
    assert rejection is not None
    assert rejection.purpose.english == "sets up a session"
    assert connections["default"] is own
    assert not [each for each in sessions._ours.values() if each.connection is not None]
