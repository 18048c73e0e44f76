"""procrastinate, on PostgreSQL."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from benchmarks.address import connect, parse
from benchmarks.contenders.base import Contender, as_datetime, python
from benchmarks.tick import tick


def make(url: str, connector: str) -> tuple[Any, Any]:
    import procrastinate

    address = parse(url)
    parts = address._asdict()
    where = {name: parts[name] for name in ("host", "port", "user", "password")}
    app = procrastinate.App(
        connector=getattr(procrastinate, connector)(
            kwargs={**where, "dbname": address.name}, min_size=1, max_size=10
        )
    )

    async def run(number: int) -> None:
        tick(number)

    return app, app.task(name="tick")(run)


class Procrastinate(Contender):
    settings = "one worker, concurrency 20, NOTIFY on, polls every second, done jobs deleted"

    def prepare(self) -> None:
        self.app, self.task = make(self.url, "SyncPsycopgConnector")
        self.app.open()
        self.app.schema_manager.apply_schema()

    def add_many(self, tasks: Sequence[Any]) -> None:
        due = tasks[0][1]
        for first in range(0, len(tasks), 1000):
            numbers = ({"number": number} for number, _ in tasks[first : first + 1000])
            self.task.configure(schedule_at=as_datetime(due)).batch_defer(*numbers)

    def add(self, number: int, due: float) -> None:
        self.task.configure(schedule_at=as_datetime(due)).defer(number=number)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "benchmarks.contenders.procrastinate", self.url)]

    def is_empty(self) -> bool:
        with connect(self.url) as connection:
            row = connection.execute("SELECT 1 FROM procrastinate_jobs LIMIT 1").fetchone()
        return row is None

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("procrastinate", "psycopg")}


CONTENDER = Procrastinate


def work(url: str) -> None:
    app, _ = make(url, "PsycopgConnector")
    app.run_worker(concurrency=20, delete_jobs="always", fetch_job_polling_interval=1.0)


if __name__ == "__main__":
    work(sys.argv[1])
