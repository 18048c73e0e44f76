"""Jobs of other schedulers, as they were found: they can come over, or stay for a reason."""

import json
from datetime import datetime
from typing import Any, NamedTuple

from django_tasks.schedules import At, Schedule
from django_tasks.schedules.policies import Plan


class StoreError(Exception):
    """A store that cannot be read; the text is one sentence for the user."""


class CannotCome(Exception):
    """One job that cannot come over; the text says why."""


class Found(NamedTuple):
    """A job that can come over. ``function`` is what it calls, as its scheduler writes that.

    ``notes`` are what will be otherwise from now on, one short clause each.
    """

    name: str
    function: str
    when: datetime
    schedule: str | None
    payload: dict[str, Any]
    queue: str = ""
    priority: int | None = None
    notes: tuple[str, ...] = ()


class Left(NamedTuple):
    """A job that stays where it is, and why."""

    name: str
    reason: str


def refuse_paused() -> None:
    """Raise CannotCome for a job that is paused: the only place that decides about those."""
    raise CannotCome("it is paused")


def payload(args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call as ``biz_ext``; CannotCome if JSON would make others of them."""
    if not isinstance(args, (list, tuple)) or not isinstance(kwargs, dict):
        raise CannotCome("its arguments are no list and dict")
    value = {"args": list(args), "kwargs": kwargs}
    try:
        same = json.loads(json.dumps(value)) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise CannotCome(f"its arguments are not JSON ({error})") from None
    if not same:
        raise CannotCome("JSON would change its arguments (tuples, keys that are no texts)")
    return value


def plan(schedule: Schedule, differs: dict[str, Any]) -> str | None:
    """The text for a row; None for a task that runs once and has no policy of its own."""
    if isinstance(schedule, At) and not differs:
        return None
    return str(Plan(schedule, differs))
