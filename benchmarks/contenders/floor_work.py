"""The floor of useful work: claim 500, then cancel their orders and delete them, two transactions.

With the word "single": as many connections as our worker has threads, and for each task a
transaction of its own that cancels its order and deletes it.
"""

import sys
from collections.abc import Sequence
from queue import Queue
from threading import Thread
from time import sleep

from benchmarks import orders
from benchmarks.contenders.base import python
from benchmarks.contenders.floor import IDLE_SECONDS, Floor, Row, Table, table_at
from benchmarks.journal import recorder

THREADS = 8


class Batches(Floor):
    settings = "one connection: claims 500; then one transaction cancels their orders, deletes them"
    flags: tuple[str, ...] = ()

    def prepare(self) -> None:
        super().prepare()
        orders.create(self.url)

    def add_many(self, tasks: Sequence[tuple[int, float]]) -> None:
        orders.fill(self.url, (number for number, _ in tasks))
        super().add_many(tasks)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "benchmarks.contenders.floor_work", self.url, *self.flags)] * processes


class Singles(Batches):
    settings = f"{THREADS} connections: BEGIN, cancel the order, delete the task, COMMIT"
    flags = ("single",)


CONTENDER = Batches


def work(url: str) -> None:
    table, record = table_at(url), recorder()
    while True:
        if rows := table.claim(crowd=False):
            for row in rows:
                record(int(row[3]))
            finish(table, rows)
        else:
            sleep(IDLE_SECONDS)


def work_singly(url: str) -> None:
    """One connection claims, and each of the others takes the next row when it is free."""
    table, rows = table_at(url), Queue[Row]()
    for _ in range(THREADS):
        Thread(target=_take, args=(url, table.me, rows), daemon=True).start()
    while True:
        claimed = table.claim(crowd=False)
        for row in claimed:
            rows.put(row)
        rows.join()
        if not claimed:
            sleep(IDLE_SECONDS)


def _take(url: str, me: int, rows: Queue[Row]) -> None:
    table, record = table_at(url), recorder()
    table.me = me
    while True:
        row = rows.get()
        record(int(row[3]))
        finish(table, [row])
        rows.task_done()


def finish(table: Table, rows: Sequence[Row]) -> None:
    table.run("BEGIN IMMEDIATE" if table.mark == "?" else "BEGIN")
    orders.cancel(table.connection.cursor(), [row[3] for row in rows], table.mark)
    table.delete([row[0] for row in rows])
    table.run("COMMIT")


if __name__ == "__main__":
    (work_singly if "single" in sys.argv else work)(sys.argv[1])
