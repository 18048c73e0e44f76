"""Fields of a line that say which task it is about, and the filter that gives them to every line.

The filter is named in a project's ``LOGGING``, which is read before apps are loaded: nothing here
may need them.
"""

import logging
from typing import Any, Protocol

from django_tasks.handlers.current import CURRENT, Batch
from django_tasks.handlers.running_task import RunningTask
from django_tasks.logs.phrases import harmless

# Outside of a run: texts are empty, so that a format may name them, and numbers are null, which
# an index of numbers takes.
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("task", "biz_code", "biz_num", "queue", "database", "worker"), ""),
    **dict.fromkeys(("task_id", "attempt", "batch"), None),
}


class Coded(Protocol):
    """A thing that has a code: a task at work, one that is passive, a claim, a row."""

    @property
    def biz_code(self) -> str: ...


def fields_of(task: Coded, using: str = "") -> dict[str, Any]:
    """The fields of a line about ``task``; ``using`` is for one that does not know its database."""
    return {
        "task": str(task),
        "task_id": getattr(task, "id", None),
        "biz_code": task.biz_code,
        "biz_num": getattr(task, "biz_num", ""),
        "queue": getattr(task, "queue", ""),
        "attempt": getattr(task, "attempt", None),
        "database": using or getattr(task, "using", ""),
        "worker": getattr(task, "worker", ""),
    }


def fields_of_run(task: RunningTask, seconds: float) -> dict[str, Any]:
    """The fields of a line about a run that took ``seconds``."""
    return {**fields_of(task), "duration": seconds, "lateness": task.lateness}


class TaskFilter(logging.Filter):
    """Gives each record the task that runs where the line is said: ``task``, ``task_id``,
    ``biz_code``, ``biz_num``, ``attempt``, ``queue``, ``database``, ``worker``, and ``batch``, the
    number of tasks of a call of ``handle_batch``.

    For the handlers of a project's ``LOGGING``. What a record says by itself stays.
    """

    def filter(self, record: logging.LogRecord) -> Any:
        given = vars(record)
        # A line about another task than that which runs, or about a code, is not mixed with it.
        fields = NOTHING if "biz_code" in given else _fields_here()
        for name, value in fields.items():
            given.setdefault(name, harmless(value))
        return super().filter(record)


def _fields_here() -> dict[str, Any]:
    current = CURRENT.get()
    if current is None:
        return NOTHING
    if isinstance(current, Batch):
        return _fields_of_batch(current.tasks)
    return {**NOTHING, **fields_of(current)}


def _fields_of_batch(tasks: tuple[RunningTask, ...]) -> dict[str, Any]:
    first, count = tasks[0], len(tasks)
    if count == 1:
        return {**NOTHING, **fields_of(first), "batch": 1}
    shared = {
        "task": f"{first.biz_code} ({count} tasks)",
        "biz_code": first.biz_code,
        "queue": first.queue,
        "database": first.using,
        "worker": first.worker,
        "batch": count,
    }
    return {**NOTHING, **shared}
