"""Demands on a database, told by its settings: the sentence that says what is wrong."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from django.db.utils import ConnectionHandler

from django_tasks import requirements

pytestmark = pytest.mark.each_database

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "tasks.sqlite3"}
MARIADB = {"ENGINE": "django.db.backends.mysql", "NAME": "tasks", "HOST": "db.invalid"}
POSTGRESQL = {"ENGINE": "django.db.backends.postgresql", "NAME": "tasks", "HOST": "db.invalid"}
ASKED = (requirements.driver_problem, requirements.autocommit_problem, requirements.memory_problem)

Databases = Callable[..., ConnectionHandler]


@pytest.mark.parametrize("engine", [SQLITE, MARIADB, POSTGRESQL])
def test_an_ordinary_database_has_no_problem_and_nobody_connects(
    engine: dict[str, Any], databases: Databases
) -> None:
    databases(tasks=engine)
    assert [ask("tasks") for ask in ASKED] == [None, None, None]


def test_psycopg2_is_refused(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = databases(tasks=POSTGRESQL)
    monkeypatch.setattr(seen["tasks"], "Database", ModuleType("psycopg2"))
    assert "needs psycopg 3" in str(requirements.driver_problem("tasks"))


def test_so_is_a_database_that_commits_nothing(databases: Databases) -> None:
    databases(tasks=POSTGRESQL | {"AUTOCOMMIT": False})
    assert "AUTOCOMMIT is False for the database 'tasks'" in str(
        requirements.autocommit_problem("tasks")
    )


@pytest.mark.parametrize("name", [":memory:", "file:memorydb_x?mode=memory&cache=shared"])
def test_a_database_in_memory_is_named_with_the_cure(name: str, databases: Databases) -> None:
    databases(tasks=SQLITE | {"NAME": name})
    problem = str(requirements.memory_problem("tasks"))
    assert "'tasks' is in memory" in problem
    assert '"TEST": {"NAME": ' in problem


PROBLEMS = {
    "a driver": (POSTGRESQL, "psycopg2"),
    "no commits": (POSTGRESQL | {"AUTOCOMMIT": False}, "AUTOCOMMIT"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_on_none_of_these_a_worker_starts(
    problem: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, sentence = PROBLEMS[problem]
    seen = databases(tasks=settings)
    if problem == "a driver":
        monkeypatch.setattr(seen["tasks"], "Database", ModuleType("psycopg2"))
    assert sentence in str(requirements.refusal("tasks"))


@pytest.mark.parametrize("engine", [SQLITE, MARIADB, POSTGRESQL])
def test_on_an_ordinary_one_it_does(engine: dict[str, Any], databases: Databases) -> None:
    databases(tasks=engine)
    assert requirements.refusal("tasks") is None
