"""Rows of tasks, runs and workers as commands show them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks.models import Task, TaskRun, WorkerRow
from django_tasks.reads.words import distance_text, error_line, stamp
from django_tasks.timezones import aware
from django_tasks.values.keys import DEFAULT_QUEUE
from django_tasks.values.status import Status

# Read for a list; a payload and a schedule may be long.
COLUMNS = (
    *("id", "biz_code", "biz_num", "name", "when", "status", "queue", "priority", "attempts"),
    *("runs", "last_run", "claimed_by", "claim_time", "exception", "last_error", "schedule"),
    "update_time",
)
HEADS = [
    _("code"),
    _("number"),
    _("status"),
    _("when"),
    "",
    _("attempts"),
    _("worker"),
    _("queue"),
    _("schedule"),
    _("error"),
]
# The places of the distance and of the attempts: where it is narrow, the error says more.
SPARE = (4, 5)


def utc(value: datetime | None) -> datetime | None:
    """A model's time as aware UTC."""
    return None if value is None else aware("time", value)


def local(value: datetime | None) -> str:
    """A model's time for people; empty if there is none."""
    return "" if value is None else stamp(aware("time", value))


def due_words(task: Task, now: datetime) -> dict[str, str]:
    """The time at which a task is due, and how far away that is."""
    when = aware("when", task.when)
    return {"when": stamp(when), "distance": distance_text(when, now)}


def worker_names(using: str) -> dict[int, str]:
    return dict(WorkerRow._base_manager.using(using).values_list("pk", "name"))


def row_of(
    task: Task, now: datetime, workers: Mapping[int, str], *, has_status: bool = True
) -> list[Any]:
    """One line of a list, as HEADS says; the status is empty where all have the same."""
    return [
        task.biz_code,
        task.biz_num,
        Status(task.status).label if has_status else "",
        *due_words(task, now).values(),
        task.attempts or "",
        worker_of(task, workers),
        "" if task.queue == DEFAULT_QUEUE else task.queue,
        task.schedule,
        error_line(task.exception, task.last_error),
    ]


def worker_of(task: Task, workers: Mapping[int, str]) -> str:
    if task.claimed_by is None:
        return ""
    gone = gettext("%(worker)s (gone)") % {"worker": task.claimed_by}
    return workers.get(task.claimed_by, gone)


def task_as_json(task: Task, workers: Mapping[int, str]) -> dict[str, Any]:
    return {
        "biz_code": task.biz_code,
        "biz_num": task.biz_num,
        "name": task.name,
        "status": Status(task.status).name.lower(),
        "when": utc(task.when),
        "queue": task.queue,
        "priority": task.priority,
        "schedule": task.schedule,
        "attempts": task.attempts,
        "runs": task.runs,
        "last_run": utc(task.last_run),
        "worker": worker_of(task, workers) or None,
        "claim_time": utc(task.claim_time),
        "exception": task.exception,
        "error": task.last_error,
        "update_time": utc(task.update_time),
    }


def run_as_json(run: TaskRun) -> dict[str, Any]:
    names = ("outcome", "attempt", "worker", "missed", "exception", "error", "detail")
    times = ("when", "scheduled_time", "started", "ended")
    facts = {name: utc(getattr(run, name)) for name in times}
    return facts | {name: getattr(run, name) for name in names}
