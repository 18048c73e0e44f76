"""Tasks in the test database, as the tests see them from outside."""

from datetime import datetime, timedelta, timezone
from typing import Any

from django.db.models import Sum

from django_tasks.client.adding import add_tasks
from django_tasks.models import Task, TaskMinute, WorkerRow
from tests.vendor import SERVERS, only_on

needs_a_server = only_on(*SERVERS, because="no server to restart, or to cut off from")


def add(biz_code: str, *numbers: object, seconds: float = 0.0, **fields: Any) -> None:
    """Add tasks that are due ``seconds`` from now."""
    when = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    add_tasks(
        Task(biz_code=biz_code, biz_num=str(number), when=when, **fields) for number in numbers
    )


def rows(**conditions: Any) -> dict[str, int]:
    """Key and status of every row."""
    return {str(task): task.status for task in Task.objects.filter(**conditions)}


def row(key: str) -> Task:
    code, _, number = key.partition("/")
    return Task.objects.get(biz_code=code, biz_num=number)


def payload_of(key: str) -> Any:
    return row(key).biz_ext


def count(**conditions: Any) -> int:
    return Task.objects.filter(**conditions).count()


def done() -> dict[str, int]:
    """The number of runs that are counted as done, by code."""
    return dict(TaskMinute.objects.values_list("biz_code").annotate(Sum("done")))


def workers() -> int:
    return WorkerRow.objects.count()
