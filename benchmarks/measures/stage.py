"""Where a measurement is taken: a contender, how much of everything, and its workers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.address import connect, parse
from benchmarks.contenders.base import Contender
from benchmarks.journal import VARIABLE, Journal
from benchmarks.processes import Workers, running


class Stage(NamedTuple):
    contender: Contender
    scratch: Path
    tasks: int
    processes: int
    seconds: float

    def journal(self, tasks: int) -> Journal:
        return Journal.create(self._journal, tasks)

    @property
    def _journal(self) -> Path:
        return self.scratch / "journal"

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        commands = self.contender.workers(self.processes)
        with running(commands, {VARIABLE: str(self._journal)}, self.scratch / "log") as workers:
            yield workers

    def settle(self) -> None:
        """Have the database finish what filling it began: statistics, and what is to be flushed."""
        address = parse(self.contender.url)
        if address.vendor == "redis":
            return
        connection = connect(self.contender.url)
        cursor = connection.cursor()
        if address.vendor == "sqlite":
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        elif address.vendor == "postgresql":
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("CHECKPOINT")
        connection.close()
