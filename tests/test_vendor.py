"""Tests of some databases alone are run on those, and skipped nowhere."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from tests import vendor
from tests.conftest import pytest_collection_modifyitems
from tests.vendor import (
    MARIADB,
    MYSQL,
    POSTGRESQL,
    SERVERS,
    SQLITE,
    VENDOR,
    database,
    is_on,
    only_on,
)


class Item:
    """Stands in for a collected test."""

    def __init__(self, *marks: pytest.MarkDecorator) -> None:
        self.marks = [each.mark for each in marks]

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [each for each in self.marks if each.name == name]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)


def kept(*items: Item) -> list[Item]:
    """The tests that are run here, once the others are told of as deselected."""
    left, gone = list(items), []
    hook = SimpleNamespace(pytest_deselected=lambda items: gone.extend(items))
    config: Any = SimpleNamespace(hook=hook)
    pytest_collection_modifyitems(config, left)  # type: ignore[arg-type]
    assert set(left) | set(gone) == set(items)
    return left


def test_a_test_of_any_database_is_run_on_each() -> None:
    plain = Item(pytest.mark.django_db)
    assert kept(plain) == [plain]


@pytest.mark.parametrize("name", [SQLITE, MARIADB, MYSQL, POSTGRESQL])
def test_a_test_of_one_database_is_run_there_alone(name: str) -> None:
    one = Item(only_on(name, because="it is so"))
    assert bool(kept(one)) == is_on(name) == (name == database())


def test_of_several_marks_each_counts() -> None:
    both = Item(only_on(*SERVERS, because="a"), only_on(POSTGRESQL, because="b"))
    assert bool(kept(both)) == (database() == POSTGRESQL)


@pytest.mark.django_db
def test_mariadb_is_told_from_mysql_by_what_the_server_says() -> None:
    asked: Any = connection
    found = {True: MARIADB, False: MYSQL}[asked.mysql_is_mariadb] if VENDOR == "mysql" else VENDOR
    assert database() == found


def test_the_server_is_not_asked_where_both_are_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor, "database", lambda: pytest.fail("it was asked"))
    assert is_on(*SERVERS) == (VENDOR != SQLITE)
    assert is_on(SQLITE) == (VENDOR == SQLITE)
