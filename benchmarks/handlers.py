"""The handlers that our workers run."""

from datetime import datetime, timedelta
from time import sleep, time

from django.db import connection

from benchmarks import orders, statements
from benchmarks.journal import opened
from django_tasks.api import TaskHandler
from django_tasks.handlers.running_task import RunningTask

journal = opened()
record = journal.record
statements.watch()


class Noop(TaskHandler):
    biz_code = "noop"

    def handle(self, task: RunningTask) -> None:
        record(int(task.biz_num))


class Plain(TaskHandler):
    """Cancels the order of its number."""

    biz_code = "work"

    def handle(self, task: RunningTask) -> None:
        record(int(task.biz_num))
        cancel([task.biz_num])


class Atomic(Plain):
    biz_code = "work_atomic"
    atomic = True


class Batch(TaskHandler):
    """Cancels the orders of up to 500 tasks."""

    biz_code = "work_batch"
    batch = 500
    atomic = True

    def handle_batch(self, tasks: list[RunningTask]) -> None:
        for task in tasks:
            record(int(task.biz_num))
        cancel([task.biz_num for task in tasks])


class Query(TaskHandler):
    """As a handler that does something: ten milliseconds, of which one query is a part."""

    biz_code = "query"

    def handle(self, task: RunningTask) -> None:
        record(int(task.biz_num))
        query()


class Nap(TaskHandler):
    """Lasts as many seconds as its payload says."""

    biz_code = "nap"

    def handle(self, task: RunningTask) -> None:
        record(int(task.biz_num))
        sleep(task.biz_ext)


class Busy(TaskHandler):
    """Notes its lateness. One task in ten comes again, one in a hundred fails at first."""

    biz_code = "busy"
    backoff = 0.3

    def handle(self, task: RunningTask) -> datetime | None:
        lateness = time() - task.when.timestamp()
        number = int(task.biz_num)
        if journal.has(number):
            journal.note(number + task.biz_ext, lateness)
            return None
        journal.note(number, lateness)
        if number % 100 == 5:
            raise ValueError("At first it fails.")
        return task.when + timedelta(seconds=0.3) if number % 10 == 0 else None


class Beat(TaskHandler):
    """Notes its lateness, by the second of the minute."""

    biz_code = "beat"

    def handle(self, task: RunningTask) -> None:
        due = task.when.timestamp()
        journal.note(task.biz_ext + int(due) % 60, time() - due)


def cancel(numbers: list[str]) -> None:
    with connection.cursor() as cursor:
        orders.cancel(cursor, numbers)


def query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
    sleep(0.010)
