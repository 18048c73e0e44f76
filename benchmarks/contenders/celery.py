"""Celery with a Redis server."""

import os
from collections.abc import Sequence
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.address import redis_command
from benchmarks.contenders.base import Contender, as_datetime, python

BROKER = "BENCHMARK_BROKER"


def make() -> tuple[Any, Any]:
    from celery import Celery

    from benchmarks.tick import tick

    app = Celery("benchmark", broker=os.environ[BROKER])
    app.conf.update(
        task_ignore_result=True,
        worker_prefetch_multiplier=100,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    return app, app.task(name="tick")(tick)


class Celery(Contender):
    settings = (
        "2 workers, solo pool, prefetch 100, no results, no gossip; Redis writes its append-only"
        " file every second: a crash of it may lose tasks, unlike everybody else's"
    )

    def prepare(self) -> None:
        os.environ[BROKER] = self.url
        self.app, self.task = make()

    def add_many(self, tasks: Sequence[Any]) -> None:
        with self.app.producer_or_acquire() as producer:
            for number, due in tasks:
                self._add(number, due, producer=producer)

    def add(self, number: int, due: float) -> None:
        self._add(number, due)

    def _add(self, number: int, due: float, **options: Any) -> None:
        eta = as_datetime(due) if due > time() else None
        self.task.apply_async((number,), eta=eta, **options)

    def workers(self, processes: int) -> list[list[str]]:
        program = ["-m", "celery", "-A", "benchmarks.contenders.celery_app:app", "worker"]
        flags = ["-P", "solo", "-l", "WARNING", "--without-gossip", "--without-mingle"]
        return [python(*program, *flags, "-n", f"worker{number}@%h") for number in (1, 2)]

    def is_empty(self) -> bool:
        waiting = redis_command(self.url, "LLEN celery"), redis_command(self.url, "HLEN unacked")
        return waiting == (":0", ":0")

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("celery", "kombu")}


CONTENDER = Celery
