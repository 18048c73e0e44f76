"""awa, on PostgreSQL: an engine in Rust, handlers in Python."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.contenders.base import Contender, as_datetime, python
from benchmarks.tick import tick

QUEUE = "default"
ROWS_A_COPY = 1000


@dataclass
class Tick:
    number: int


class Awa(Contender):
    settings = (
        "one process, 500 async handlers at a time, claims 500 at once, polls every 50 ms; COPY"
    )

    caveat = (
        "“rejects stale completions and rescues stuck work, but it does not promise 'exactly once'”"
    )

    def prepare(self) -> None:
        from awa import Client

        self.client = Client(self.url)
        self.client.migrate()
        self.client.install_queue_storage()  # its newer and faster engine

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        return [due, [Tick(number) for number in numbers]]

    def add_many(self, tasks: Sequence[Any]) -> None:
        due, jobs = tasks
        for first in range(0, len(jobs), ROWS_A_COPY):
            self.client.enqueue_many_copy(jobs[first : first + ROWS_A_COPY], run_at=_later(due))

    def add(self, number: int, due: float) -> None:
        self.client.insert(Tick(number), run_at=_later(due))

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "benchmarks.contenders.awa", self.url)]

    def is_empty(self) -> bool:
        states = ("scheduled", "available", "running", "retryable")
        return not any(self.client.list_jobs(state=state, limit=1) for state in states)

    def versions(self) -> dict[str, str]:
        return {"awa-pg": version("awa-pg")}


def _later(due: float) -> datetime | None:
    return as_datetime(due) if due > time() else None


CONTENDER = Awa


async def work(url: str) -> None:
    from awa import AsyncClient

    client = AsyncClient(url, max_connections=20)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)

    @client.task(Tick, queue=QUEUE)  # type: ignore[untyped-decorator]
    async def run(job: Any) -> None:
        tick(job.args.number)

    queue = {"name": QUEUE, "max_workers": 500, "claim_batch_size": 500}
    await client.start([queue], poll_interval_ms=50)
    await over.wait()
    await client.shutdown()
    await client.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
