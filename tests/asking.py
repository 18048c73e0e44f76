"""Tell which tests ask the database. Others prove the same on each: they run once, on SQLite."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

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


@contextmanager
def nothing_is_asked(blocker: Any) -> Iterator[None]:
    """Fail in the end if somebody in this process has asked which kind of database it is.

    Statements fail at once, by pytest-django, and here those of other processes too.
    """
    askers: list[str] = []

    def refuse(what: str) -> Any:
        askers.append(what)
        pytest.fail(f"It asks {what} of the database, and says so by no mark and no fixture.")

    kind = type(connections["default"])
    with ExitStack() as stack:
        stack.enter_context(patch.dict("os.environ", DATABASE_URL=NOWHERE))
        stack.enter_context(patch.dict(settings.DATABASES["default"], NOTHING))
        stack.enter_context(patch.object(kind, "vendor", property(lambda _: refuse("the kind"))))
        stack.enter_context(patch.object(blocker, "unblock", lambda: refuse("statements")))
        yield
    assert not askers
