"""The words of assertions that fail: tasks, and how they differ from one that is wanted."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django_tasks.exceptions import shortened
from django_tasks.models import Task
from django_tasks.timezones import aware

# Tasks that a message lists.
MOST_TOLD = 5


def differences(
    task: Task,
    wanted: dict[str, Any],
    when: datetime | timedelta | None,
    delta: timedelta,
    payload: dict[str, Any],
) -> list[str]:
    """The ways in which a task is not as wanted; ``wanted`` may have ``num`` and ``biz_ext``."""
    different = []
    if "num" in wanted and task.biz_num != wanted["num"]:
        different.append(f"has the number {task.biz_num!r}, not {wanted['num']!r}")
    if when is not None and (off := _off(task, when)) and abs(off) > delta:
        side = "later" if off > timedelta() else "earlier"
        different.append(f"is due {_span(abs(off))} {side}: {moment(task.when)}")
    if "biz_ext" in wanted and task.biz_ext != wanted["biz_ext"]:
        different.append(f"has the payload {shortened(task.biz_ext)}")
    return different + _of_payload(task.biz_ext, payload)


def _off(task: Task, when: datetime | timedelta) -> timedelta:
    due = aware("when", task.when)
    if isinstance(when, timedelta):
        # Of the very add: its time of day is another one by the time of the assertion.
        return due - aware("update_time", task.update_time) - when
    return due - when


def _span(off: timedelta) -> timedelta:
    """Without the milliseconds between an add and its parts, unless there is little else."""
    seconds = off.total_seconds()
    return timedelta(seconds=round(seconds) if seconds >= 10 else round(seconds, 3))


def _of_payload(there: Any, payload: dict[str, Any]) -> list[str]:
    if not payload:
        return []
    if not isinstance(there, dict):
        return [f"has the payload {shortened(there)}, which has no keys"]
    different = []
    for key, value in payload.items():
        if key not in there:
            different.append(f"has no {key!r} in its payload {shortened(there)}")
        elif there[key] != value:
            different.append(f"has {key}={shortened(there[key])}, not {shortened(value)}")
    return different


def but(found: Sequence[tuple[Task, list[str]]], others: Sequence[Task]) -> str:
    """A sentence about the tasks of the code, the nearest first; or about those of other codes."""
    if found:
        nearest = sorted(found, key=lambda pair: len(pair[1]))[:MOST_TOLD]
        lines = [f"\n  {task} {', '.join(different)}" for task, different in nearest]
        return f"Of this code there is:{''.join(lines)}{_more(len(found))}"
    return f"Of this code there is none; of others {told(others)}"


def told(tasks: Sequence[Task]) -> str:
    """A list of tasks, a line each."""
    if not tasks:
        return "none"
    lines = [
        f"\n  {task}, due {moment(task.when)}, {shortened(task.biz_ext)}"
        for task in tasks[:MOST_TOLD]
    ]
    return "".join(lines) + _more(len(tasks))


def _more(count: int) -> str:
    return f"\n  and {count - MOST_TOLD} more" if count > MOST_TOLD else ""


def moment(when: datetime) -> str:
    """A time to the second, with its zone if it has one."""
    return f"{when:%Y-%m-%d %H:%M:%S %Z}".rstrip()
