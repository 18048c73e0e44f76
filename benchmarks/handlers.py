"""The handlers that our workers run."""

from time import sleep

from django.db import connection

from benchmarks import orders, statements
from benchmarks.journal import recorder
from django_tasks.api import TaskHandler
from django_tasks.handlers.running_task import RunningTask

record = recorder()
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


def cancel(numbers: list[str]) -> None:
    with connection.cursor() as cursor:
        orders.cancel(cursor, numbers)


def query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
    sleep(0.010)
