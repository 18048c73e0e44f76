"""huey with its SQLite storage."""

import os
from collections.abc import Sequence
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.address import parse
from benchmarks.contenders.base import Contender, as_datetime, python

FILE = "BENCHMARK_HUEY"


def make() -> tuple[Any, Any]:
    from huey import SqliteHuey

    from benchmarks.tick import tick

    made = SqliteHuey(filename=os.environ[FILE], results=False, fsync=False)
    return made, made.task()(tick)


class Huey(Contender):
    settings = (
        "SqliteHuey, no results, one thread, synchronous=OFF (a power cut may lose tasks, unlike"
        " everybody else's), looks every 0.1 s"
    )

    def prepare(self) -> None:
        os.environ[FILE] = parse(self.url).name
        self.huey, self.task = make()

    def add_many(self, tasks: Sequence[Any]) -> None:
        for number, due in tasks:
            self.add(number, due)

    def add(self, number: int, due: float) -> None:
        # A task that is not due yet is only moved from queue to schedule by a consumer.
        if due > time():
            self.task.schedule((number,), eta=as_datetime(due))
        else:
            self.task(number)

    def workers(self, processes: int) -> list[list[str]]:
        flags = ["-w", "1", "-k", "thread", "-n", "-q", "-d", "0.01", "-m", "0.1"]
        program = "huey.bin.huey_consumer"
        return [python("-m", program, "benchmarks.contenders.huey_app.huey", *flags)]

    def is_empty(self) -> bool:
        return bool(self.huey.pending_count() == 0)

    def versions(self) -> dict[str, str]:
        return {"huey": version("huey")}


CONTENDER = Huey
