"""Checking what callers hand in, before anything is written."""

from datetime import datetime
from typing import Any, Literal

from django.db.models import Q

from django_tasks.backoff import Duration
from django_tasks.conf import options
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.handlers.recurrence import first_time
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task
from django_tasks.schedules import Foreign
from django_tasks.schedules.policies import as_plan
from django_tasks.store import clock, search
from django_tasks.store.debounce import Patience
from django_tasks.store.upsert import NewTask, OnConflict
from django_tasks.timezones import aware
from django_tasks.values import payload
from django_tasks.values.amounts import duration
from django_tasks.values.keys import (
    BIZ_CODE_LENGTH,
    BIZ_NUM_LENGTH,
    DEFAULT_QUEUE,
    QUEUE_LENGTH,
    SCHEDULE_NUM,
    check_key,
    check_priority,
    check_text,
)

Match = Literal["exact", "prefix", "contains"]
DEBOUNCE = "debounce"
ConflictOfMany = OnConflict | Literal["replace", "keep", "earliest", "raise"]
Conflict = ConflictOfMany | Literal["debounce"]


def checked_task(task: Task, using: str, when: datetime | None = None) -> NewTask:
    """``task`` as it will be stored; TaskTypeError or TaskValueError names what is wrong.

    ``when`` is the time of a task that says none. A schedule is counted from the clock of the
    database ``using``.
    """
    _check_kind(task)
    code = check_code(task.biz_code)
    when, schedule = task.when or when, None
    if task.schedule is not None:
        schedule, first = _checked_schedule(task, clock.now(using))
        when = when or first
    handler = handler_for(code)
    inherited = (handler.queue, handler.priority) if handler else (DEFAULT_QUEUE, 0)
    new = NewTask(
        biz_code=code,
        biz_num=check_key("biz_num", task.biz_num, BIZ_NUM_LENGTH),
        when=aware("when", when),
        biz_ext=payload.dump(task.biz_ext, options().payload_limit),
        queue=check_queue(task.queue if task.queue != "" else inherited[0]),
        priority=check_priority(inherited[1] if task.priority is None else task.priority),
        schedule=schedule,
    )
    if new.biz_num == SCHEDULE_NUM:
        raise TaskValueError("biz_num", SCHEDULE_NUM, "belongs to the schedule of its handler")
    if task.id:
        _check_id(task, using)
    return new


def _check_kind(task: object) -> None:
    if not isinstance(task, Task):
        raise TaskTypeError("task", task, "must be a Task")


def _checked_schedule(task: Task, now: datetime) -> tuple[str, datetime]:
    """The text of a task's schedule, and when it first runs."""
    plan = as_plan(task.schedule)
    if isinstance(plan.schedule, Foreign):
        raise TaskValueError(
            "schedule", task.schedule, "is known to this code alone: give it to a handler"
        )
    return str(plan), first_time(plan.schedule, now)


def checked_key(biz_code: str, biz_num: str) -> Q:
    """The one task of a key."""
    check_code(biz_code)
    return search.key(biz_code, check_key("biz_num", biz_num, BIZ_NUM_LENGTH))


def checked_match(biz_code: str, fragment: str, match: Match) -> Q:
    """All tasks of a code whose number matches ``fragment``, which must not be empty."""
    check_code(biz_code)
    if match == "exact":
        return checked_key(biz_code, fragment)
    if match not in ("prefix", "contains"):
        raise TaskValueError("match", match, "must be 'exact', 'prefix' or 'contains'")
    check_text("biz_num", fragment, BIZ_NUM_LENGTH)
    return search.containing(biz_code, fragment, at_start=match == "prefix")


def check_code(biz_code: object) -> str:
    return check_key("biz_code", biz_code, BIZ_CODE_LENGTH)


def check_queue(queue: object) -> str:
    return check_key("queue", queue, QUEUE_LENGTH)


def checked_conflict(value: Conflict) -> OnConflict:
    """Read the ``on_conflict`` of ``add_task``, if it is not "debounce": see checked_patience."""
    return _conflict(value, f"must be one of {_choices()}, {DEBOUNCE!r}")


def checked_conflict_of_many(value: ConflictOfMany) -> OnConflict:
    """Read the ``on_conflict`` of ``add_tasks``."""
    if value == DEBOUNCE:
        raise TaskValueError("on_conflict", value, "goes with add_task only, one task at a time")
    return _conflict(value, f"must be one of {_choices()}")


def _conflict(value: Conflict, otherwise: str) -> OnConflict:
    try:
        return OnConflict(value)
    except ValueError:
        raise TaskValueError("on_conflict", value, otherwise) from None


def _choices() -> str:
    return ", ".join(repr(choice.value) for choice in OnConflict)


def checked_patience(
    conflict: Conflict, wait: Duration | None, at_most: Duration | None, task: Any
) -> Patience | None:
    """The waits of a debounced task; None if it is not debounced."""
    if conflict != DEBOUNCE:
        for name, value in (("wait", wait), ("at_most", at_most)):
            if value is not None:
                raise TaskValueError(name, value, "goes with on_conflict='debounce' only")
        return None
    _check_kind(task)
    if wait is None:
        raise TaskValueError("wait", wait, "must say how long on_conflict='debounce' waits")
    if task.when is not None:
        raise TaskValueError("when", task.when, "must be left out: wait says when")
    if task.schedule is not None:
        raise TaskValueError("schedule", task.schedule, "cannot be debounced")
    patience = Patience(
        duration("wait", wait), None if at_most is None else duration("at_most", at_most)
    )
    if patience.at_most is not None and patience.at_most < patience.wait:
        raise TaskValueError("at_most", at_most, "must not be shorter than wait")
    return patience


def _check_id(task: Task, using: str) -> None:
    """A task that was read from the database may be added again, but only under its own key."""
    if not isinstance(task.id, int):
        raise TaskValueError("id", task.id, "must be a whole number")
    same_id = Task._base_manager.using(using).filter(pk=task.id)
    key = same_id.values_list("biz_code", "biz_num").first()
    if key is not None and key != (task.biz_code, task.biz_num):
        raise TaskValueError("id", task.id, f"belongs to another task, {key[0]}/{key[1]}")
