"""Pauses of a code or of a queue, and what workers hold: commands of the steward."""

from threading import Event
from time import monotonic
from typing import Any

from tests.faults import journal
from tests.faults.client import a_client

_never = Event()


def holders(code: str, start: str) -> list[tuple[int, int, int]]:
    """The rows that workers hold, of a code and of numbers that start so: each with its rescues,
    and its worker's process.
    """
    from django_tasks.models import Task, WorkerRow

    pids = dict(WorkerRow.objects.values_list("id", "pid"))
    rows = Task.objects.filter(biz_code=code, biz_num__startswith=start, claimed_by__isnull=False)
    held = rows.values_list("id", "rescues", "claimed_by")
    return [(row, rescues, pids[owner]) for row, rescues, owner in held if owner in pids]


def have_failed(code: str, nums: list[str]) -> bool:
    """Tell if each of some tasks has used an attempt, and waits for the next one."""
    from django_tasks.models import Task

    rows = Task.objects.filter(biz_code=code, biz_num__in=nums, claimed_by__isnull=True)
    return rows.filter(attempts__gt=0).count() == len(nums)


def pause_for(seconds: float, keys: list[tuple[str, str]], scope: dict[str, Any]) -> None:
    """Pause a code or a queue, add tasks to it that are due at once, and resume it."""
    from django_tasks import api

    asked = monotonic()
    api.pause_tasks(**scope)
    answered = monotonic()
    for code, num in keys:
        a_client().add(code, num, 0.0)
    _never.wait(seconds)
    end_asked = monotonic()
    api.resume_tasks(**scope)
    journal.write(
        "pause",
        code=scope.get("biz_code", ""),
        queue=scope.get("queue", ""),
        answered=answered,
        end_asked=end_asked,
        **{"from": asked},
    )
