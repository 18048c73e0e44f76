"""The stage of a measurement: a contender, how much of everything, and its workers."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
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

    def workers(
        self, environment: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Workers]:
        return self.running(self.contender.workers(self.processes), environment)

    def running(
        self, commands: Sequence[Sequence[str]], environment: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Workers]:
        values = {VARIABLE: str(self._journal), **(environment or {})}
        return running(commands, values, self.scratch / "log")

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
