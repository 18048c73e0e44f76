"""Tell which tests ask the database. Others prove the same on each: they run once, on SQLite."""

from typing import Any

import pytest
from django.conf import settings
from django.db import connections

MARKS = ("django_db", "each_database", "only_on")
# The latter two are databases beside that of the tests: of a forerunner, of a page.
FIXTURES = frozenset({"db", "transactional_db", "fresh", "database"})

# Other processes, and projects that a test makes, have these in place of the test database.
NOWHERE = "sqlite:////nowhere/at/all"
NOTHING = {"ENGINE": "django.db.backends.dummy", "NAME": "/nowhere/at/all"}


def asks(test: pytest.Item) -> bool:
    """Tell if a test asks the database, by what it says itself: a mark, or a fixture."""
    names: list[str] = getattr(test, "fixturenames", [])
    return any(map(test.get_closest_marker, MARKS)) or not FIXTURES.isdisjoint(names)


def refuse_all(monkeypatch: pytest.MonkeyPatch, blocker: Any) -> list[str]:
    """Refuse this test what it asks; returns what is asked, which nobody may hide.

    Statements fail at once, by pytest-django, and here those of other processes too. One owner
    undoes this and what the test patches of the same settings, the last one first.
    """
    asked: list[str] = []

    def refuse(what: str) -> Any:
        asked.append(what)
        pytest.fail(f"It asks {what} of the database, and says so by no mark and no fixture.")

    monkeypatch.setenv("DATABASE_URL", NOWHERE)
    for name, value in NOTHING.items():
        monkeypatch.setitem(settings.DATABASES["default"], name, value)
    kind = type(connections["default"])
    monkeypatch.setattr(kind, "vendor", property(lambda _: refuse("the kind")))
    monkeypatch.setattr(blocker, "unblock", lambda: refuse("statements"))
    return asked
