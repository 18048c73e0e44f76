"""One suite, every database. On MariaDB it runs twice: once as if the server were MySQL."""

from collections.abc import Iterator

import pytest
from django.db import connections

from django_tasks.store.dialects import choice
from django_tasks.store.dialects.mysql import MySQL
from tests.vendor import VENDOR


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dialect" in metafunc.fixturenames:
        names = ["mariadb", "mysql"] if VENDOR == "mysql" else [VENDOR]
        metafunc.parametrize("dialect", names, indirect=True)


@pytest.fixture(autouse=True)
def dialect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the dialect that the store speaks in this test."""
    if request.param == "mysql":
        monkeypatch.setattr(choice, "MariaDB", MySQL)
    forget_dialect()
    yield request.param
    forget_dialect()


def forget_dialect() -> None:
    """Have this thread's connection asked again what it leads to."""
    vars(connections["default"]).pop(choice.KEPT, None)
