"""Commands as a person calls them, without a process."""

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from django_tasks.store import clock
from tests.factories import NOW


class Said(str):
    """The text that a command has written to standard output, its ``error``, and ``code``, its
    exit code.
    """

    error: str = ""
    notes: str = ""
    code: int = 0

    @property
    def json(self) -> Any:
        return json.loads(self)


Call = Callable[..., Said]


@pytest.fixture
def call() -> Call:
    """Call a command; what it raises is an exit code, as on a command line."""

    def run(*arguments: str) -> Said:
        out, notes = StringIO(), StringIO()
        error, code = "", 0
        try:
            call_command(*arguments, stdout=out, stderr=notes, no_color=True)
        except CommandError as refused:
            error, code = str(refused), refused.returncode
        said = Said(out.getvalue())
        said.error, said.notes, said.code = error, notes.getvalue(), code
        return said

    return run


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def at_noon() -> Any:
    """The database's clock stands at NOW."""
    with clock.replaced(lambda using: NOW):
        yield
