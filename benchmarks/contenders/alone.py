"""Threads that run the handlers of ``handlers`` without any queue: the most that threads can do."""

import os
from collections import deque
from collections.abc import Sequence
from threading import Thread
from typing import Any

import django

from benchmarks.contenders.base import Contender, python

THREADS = 32


class Alone(Contender):
    settings = f"{THREADS} threads that run the same function, and nothing else"

    def prepare(self) -> None:
        os.environ |= {"DATABASE_URL": self.url, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}

    def add_many(self, tasks: Sequence[Any]) -> None:
        self.tasks = len(tasks)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "benchmarks.contenders.alone", str(self.tasks))]

    def is_empty(self) -> bool:
        return True


CONTENDER = Alone


def main(tasks: int) -> None:
    django.setup()
    from django.db import close_old_connections

    from benchmarks.handlers import query, record

    numbers = deque(range(tasks))

    def work() -> None:
        while True:
            try:
                number = numbers.popleft()
            except IndexError:
                return
            record(number)
            query()
            close_old_connections()

    threads = [Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    import signal
    import sys

    main(int(sys.argv[1]))
    signal.pause()
