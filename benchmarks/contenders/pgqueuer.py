"""pgqueuer, on PostgreSQL with asyncpg."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.address import connect, parse
from benchmarks.contenders.base import Contender, python
from benchmarks.tick import tick

BATCH = 500
ROWS_A_STATEMENT = 1000


async def open_driver(url: str) -> Any:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver

    address = parse(url)._asdict()
    where = {name: address[name] for name in ("host", "port", "user", "password")}
    return AsyncpgDriver(await asyncpg.connect(**where, database=address["name"]))


class PgQueuer(Contender):
    settings = f"2 processes, asyncpg and uvloop, batches of {BATCH}, NOTIFY on"

    def prepare(self) -> None:
        from pgqueuer.queries import Queries

        self.loop = asyncio.new_event_loop()
        self.queries = Queries(self.loop.run_until_complete(open_driver(self.url)))
        self.loop.run_until_complete(self.queries.install())

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        return [(str(number).encode(), due) for number in numbers]

    def add_many(self, tasks: Sequence[Any]) -> None:
        for first in range(0, len(tasks), ROWS_A_STATEMENT):
            self._enqueue(tasks[first : first + ROWS_A_STATEMENT])

    def add(self, number: int, due: float) -> None:
        self._enqueue(self.make([number], due))

    def _enqueue(self, tasks: Sequence[Any]) -> None:
        now, count = time(), len(tasks)
        delays = [timedelta(seconds=max(0.0, due - now)) for _, due in tasks]
        payloads = [payload for payload, _ in tasks]
        call = self.queries.enqueue(["tick"] * count, payloads, [0] * count, delays)
        self.loop.run_until_complete(call)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "benchmarks.contenders.pgqueuer", self.url)] * 2

    def is_empty(self) -> bool:
        with connect(self.url) as connection:
            return connection.execute("SELECT 1 FROM pgqueuer LIMIT 1").fetchone() is None

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("pgqueuer", "asyncpg", "uvloop")}


CONTENDER = PgQueuer


async def work(url: str) -> None:
    from pgqueuer import PgQueuer

    running = PgQueuer(await open_driver(url))

    async def run(job: Any) -> None:
        tick(int(job.payload))

    running.entrypoint("tick")(run)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.shutdown.set)
    await running.run(batch_size=BATCH)


if __name__ == "__main__":
    import uvloop

    uvloop.run(work(sys.argv[1]))
