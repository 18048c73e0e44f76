"""The questions of the measures to a contender."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, ClassVar

FILL = 10_000


class Contender:
    """One way to run tasks, in the database at ``url``.

    Tasks are numbers; when one runs, it does nothing but tell the journal its number.
    """

    # What a reader must know to judge the configuration; goes into the table.
    settings: ClassVar[str]
    # What it does not promise, quoted from its own documentation; goes there too.
    caveat: ClassVar[str] = ""

    def __init__(self, url: str) -> None:
        self.url = url

    def prepare(self) -> None:
        """Make the tables in an empty database, and be ready to add."""

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        """The argument of ``add_many``: tasks that are due then (seconds since 1970)."""
        return [(number, due) for number in numbers]

    def add_many(self, tasks: Sequence[Any]) -> None:
        """Add all of them the quickest way there is."""
        raise NotImplementedError

    def add(self, number: int, due: float) -> None:
        """Add one, and commit."""
        raise NotImplementedError

    def workers(self, processes: int) -> list[list[str]]:
        """The commands that run tasks until SIGTERM, in so many processes."""
        raise NotImplementedError

    def is_empty(self) -> bool:
        """Tell if nothing is left to be done or to be written down."""
        raise NotImplementedError

    def fill(self, numbers: range, due: float) -> None:
        """Have so many tasks in the table, quickly; nobody measures how."""
        for first in range(numbers.start, numbers.stop, FILL):
            part = range(first, min(first + FILL, numbers.stop))
            self.add_many(self.make(part, due))

    def versions(self) -> dict[str, str]:
        """Of what matters beside Python and the database."""
        return {}


def as_datetime(due: float) -> datetime:
    return datetime.fromtimestamp(due, timezone.utc)


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]
