"""While a database cannot be worked with: longer waits, and lines in the log that say why."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.utils import OperationalError

from django_tasks.worker import outage as module
from django_tasks.worker.outage import FIRST_DELAY, LONGEST_DELAY, Outage, reason_of
from tests.naming import named


def test_delays_grow_with_jitter_up_to_a_limit() -> None:
    outage = Outage("default")
    delays = [outage.delay_after(OSError("down"), 0) for _ in range(30)]
    assert FIRST_DELAY / 2 <= delays[0] <= FIRST_DELAY
    assert all(delay <= LONGEST_DELAY for delay in delays)
    assert all(delay >= LONGEST_DELAY / 2 for delay in delays[8:])
    assert len(set(delays)) == len(delays)


def test_it_is_said_once_that_it_is_down_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage("default")
    for _ in range(5):
        outage.delay_after(OSError("refused"), 7)
    for _ in range(3):
        outage.is_over()
    down, back = (record.getMessage() for record in caplog.records)
    assert down == (
        "Database default does not answer (OSError: refused); 7 ends are kept; trying again until"
        " it is back"
    )
    assert back.startswith("Database default is back after")


def test_an_outage_that_lasts_is_said_each_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage = Outage("default")
    for second in range(181):
        monkeypatch.setattr(module, "ticks", lambda second=second: 5000.0 + second)
        outage.delay_after(OSError("refused"), 1)
    lines = [record.getMessage() for record in caplog.records]
    begin = "Database default does not answer (OSError: refused)"
    end = "; 1 end is kept; trying again until it is back"
    lasting = [f"{begin}, for {seconds} s now{end}" for seconds in (60, 120, 180)]
    assert lines == [begin + end, *lasting]


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SimpleNamespace(settings_dict={"USER": "x_user", "NAME": "x_database"})
    monkeypatch.setattr(module, "connections", {"default": settings})


NAMING = [
    (OperationalError(1045, "Access denied"), "refuses the user x_user or the password"),
    (OperationalError(1142, "SELECT denied"), "lets the user x_user not do what is needed"),
    (OperationalError(1049, "Unknown database"), "is not known to its server as x_database"),
    (OperationalError(1146, "Table 'x.t_task' doesn't exist"), "has no table x.t_task"),
    (OperationalError("no such table: t_task"), "has no table t_task"),
    (OperationalError('relation "t_task" does not exist\nLINE 1'), "has no table t_task"),
]


@pytest.mark.parametrize(
    ("reason", "text", "name"),
    [
        ("denied", "(1045, \"Access denied for user 'x'@'localhost' (using password: YES)\")", "x"),
        ("denied", 'at "127.0.0.1" failed: FATAL:  no pg_hba.conf entry for user "x"', "x"),
        ("forbidden", "permission denied for table t_task", "?"),
        ("empty", "la relation « t_task » n'existe pas", "t_task"),
        ("empty", '关系 "t_task" 不存在', "t_task"),
    ],
)
def test_what_the_settings_leave_to_a_file_is_read_in_the_servers_words(
    reason: Any, text: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SimpleNamespace(settings_dict={"USER": "", "NAME": ""})
    monkeypatch.setattr(module, "connections", {"default": settings})
    assert module._name("default", reason, text) == name


@pytest.mark.parametrize(("error", "words"), NAMING, ids=lambda value: named(value, 50))
def test_a_wait_that_somebody_must_end_names_what_to_look_at_and_promises_nothing(
    error: OperationalError, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    if "relation" in str(error):
        error.__cause__ = from_psycopg("42P01").__cause__
    Outage("default").delay_after(error, 0)
    (line,) = caplog.messages
    assert line.startswith(f"Database default {words} (OperationalError: ")
    assert line.endswith("; trying again")


def test_another_reason_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("default")
    for error in (OSError("refused"), OperationalError(1045, "Access denied for user 'x'")):
        for _ in range(3):
            outage.delay_after(error, 0)
    first, second = (record.getMessage() for record in caplog.records)
    assert "does not answer (OSError" in first
    assert "refuses the user x_user or the password (OperationalError: (1045, " in second
    assert second.endswith("; trying again")


def test_each_outage_begins_with_short_delays(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("default")
    for _ in range(8):
        outage.delay_after(OSError("down"), 0)
    outage.is_over()
    assert outage.delay_after(OSError("down"), 0) <= FIRST_DELAY
    assert len(caplog.records) == 3


def test_each_delay_is_twice_as_long_as_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "uniform", lambda least, most: most)
    outage = Outage("default")
    delays = [outage.delay_after(OSError("down"), 0) for _ in range(7)]
    assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, LONGEST_DELAY, LONGEST_DELAY])


def test_without_an_outage_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    Outage("default").is_over()
    assert caplog.records == []


def from_psycopg(state: str, name: str = "sqlstate") -> OperationalError:
    """Django's error around one of psycopg's, which knows its state."""
    error = OperationalError("something in another language")
    cause = Exception()
    setattr(cause, name, state)
    error.__cause__ = cause
    return error


def from_libpq(words: str) -> OperationalError:
    return OperationalError(f'connection to server at "127.0.0.1", port 5432 failed: {words}')


REASONS = [
    (OperationalError(2002, "Can't connect to server on '127.0.0.1' (115)"), "silent"),
    (OperationalError(2005, "Unknown server host 'nohost'"), "silent"),
    (OperationalError(2006, "Server has gone away"), "silent"),
    (OperationalError(1045, "Access denied for user 'tasks'@'localhost'"), "denied"),
    (OperationalError(1044, "Access denied for user … to database 'x'"), "denied"),
    (OperationalError(1142, "SELECT command denied to user"), "forbidden"),
    (from_psycopg("42501"), "forbidden"),
    (OperationalError(3118, "Account is locked"), "denied"),
    (OperationalError(3032, "The server is currently in offline mode"), "refused"),
    (OperationalError(1049, "Unknown database 'x'"), "unknown"),
    (OperationalError(1040, "Too many connections"), "refused"),
    (OperationalError(1146, "Table 'x.t_task_worker' doesn't exist"), "empty"),
    (from_psycopg("28P01"), "denied"),
    (from_psycopg("28P01", "pgcode"), "denied"),
    (from_psycopg("3D000"), "unknown"),
    (from_psycopg("42P01"), "empty"),
    (from_psycopg("57014"), "silent"),
    (from_libpq('FATAL:  password authentication failed for user "x"'), "denied"),
    (from_libpq('FATAL:  role "x" does not exist'), "denied"),
    (from_libpq('FATAL:  no pg_hba.conf entry for host "1.2.3.4"'), "denied"),
    (from_libpq("fe_sendauth: no password supplied"), "denied"),
    (from_libpq('FATAL:  database "x" does not exist'), "unknown"),
    (from_libpq("FATAL:  Passwort-Authentifizierung fehlgeschlagen"), "refused"),
    (from_libpq("FATAL:  the database system is starting up"), "refused"),
    (from_libpq("Connection refused"), "silent"),
    (OperationalError("unable to open database file"), "no file"),
    (OperationalError("no such table: t_task_worker"), "empty"),
    (OperationalError("database is locked"), "silent"),
    (OperationalError(), "silent"),
    (OperationalError([]), "silent"),
    (OperationalError(2013, 1045), "silent"),
]


@pytest.mark.parametrize(("error", "reason"), REASONS, ids=lambda value: named(value, 50))
def test_an_error_tells_its_reason(error: OperationalError, reason: str) -> None:
    assert reason_of(error) == reason


@pytest.mark.parametrize("make", [OperationalError, OSError])
def test_a_reason_is_found_in_any_class_of_error(make: Callable[..., BaseException]) -> None:
    assert reason_of(make(1049, "Unknown database 'x'")) == "unknown"
