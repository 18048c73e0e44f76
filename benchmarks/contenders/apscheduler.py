"""APScheduler 3 with its SQLAlchemy job store."""

import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version
from time import sleep
from typing import Any

from benchmarks.address import connect, parse
from benchmarks.contenders.base import Contender, as_datetime, python

DIALECTS = {
    "sqlite": "sqlite://",
    "mariadb": "mysql+mysqldb://",
    "postgresql": "postgresql+psycopg://",
}
WAKE_SECONDS = 1.0


def scheduler(url: str) -> Any:
    from apscheduler.executors.pool import ThreadPoolExecutor
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    address = parse(url)
    where = f"/{address.name}"
    if address.host:
        where = f"{address.user}:{address.password}@{address.host}:{address.port}{where}"
    return BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(DIALECTS[address.vendor] + where)},
        executors={"default": ThreadPoolExecutor(8)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )


class APScheduler(Contender):
    settings = (
        "BackgroundScheduler, 8 threads, SQLAlchemy job store; woken every second, since it hears"
        " nothing of jobs that other processes add"
    )

    def prepare(self) -> None:
        self.scheduler = scheduler(self.url)
        self.scheduler.start(paused=True)

    def add_many(self, tasks: Sequence[Any]) -> None:
        for number, due in tasks:
            self.add(number, due)

    def add(self, number: int, due: float) -> None:
        when = as_datetime(due)
        self.scheduler.add_job("benchmarks.tick:tick", "date", run_date=when, args=[number])

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "benchmarks.contenders.apscheduler", self.url)]

    def is_empty(self) -> bool:
        connection = connect(self.url)
        cursor = connection.cursor()
        cursor.execute("SELECT 1 FROM apscheduler_jobs LIMIT 1")
        row = cursor.fetchone()
        connection.close()
        return row is None

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("APScheduler", "SQLAlchemy")}


CONTENDER = APScheduler


def work(url: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    running = scheduler(url)
    running.start()
    while True:
        sleep(WAKE_SECONDS)
        running.wakeup()


if __name__ == "__main__":
    work(sys.argv[1])
