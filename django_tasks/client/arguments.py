"""Checking what callers hand in, before anything is written."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.db.models import Q

from django_tasks import logs, payloads
from django_tasks.backoff import Duration
from django_tasks.conf import options as settings
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.handlers.base import near_name
from django_tasks.handlers.finders import known_handler
from django_tasks.handlers.recurrence import first_time
from django_tasks.handlers.registry import get_task_handlers, handler_for
from django_tasks.models import Task
from django_tasks.near_names import closest, did_you_mean
from django_tasks.schedules import Foreign
from django_tasks.schedules.budget import budget
from django_tasks.schedules.policies import Plan, as_plan
from django_tasks.sentences import on_a_line
from django_tasks.sentences import sentence as _
from django_tasks.store import clock, search
from django_tasks.store.upsert import NewTask
from django_tasks.timezones import aware
from django_tasks.values.amounts import flag
from django_tasks.values.conflicts import Conflict, DebounceTerms, debounce_terms
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.keys import (
    BIZ_CODE_LENGTH,
    BIZ_NUM_LENGTH,
    DEFAULT_QUEUE,
    QUEUE_LENGTH,
    check_key,
    check_name,
    check_new,
    check_number,
    check_priority,
    check_text,
)
from django_tasks.values.options import NO_OPTIONS, TaskOptions, options_to_text

Match = Literal["exact", "prefix", "contains", "all"]
# ``biz_num`` as callers have it; what is no text is taken as its text.
Number = str | int | UUID
When = datetime | timedelta


class Key(NamedTuple):
    """The key of a task, checked."""

    biz_code: str
    biz_num: str

    @property
    def matching(self) -> Q:
        return search.key(self.biz_code, self.biz_num)


def checked_task(
    task: Task, using: str, when: datetime | None = None, *, is_old: bool = False
) -> NewTask:
    """``task`` as it will be stored; TaskTypeError or TaskValueError names what is wrong.

    ``when`` is the time of a task that says neither a time nor a schedule. A schedule, and
    durations, are counted from the clock of the database ``using``. ``is_old``: it has been a row
    somewhere, and keeps its texts.
    """
    _check_kind(task)
    code = check_code(task.biz_code)
    # Before its queue and priority are asked for: to find it may take an import.
    handler = handler_for(code) if settings().strict_codes == "off" else known_handler(code)
    first, schedule, own = task.when, None, _own_options(task)
    if task.schedule is not None:
        plan, begins = checked_schedule(task.schedule, using)
        schedule, own = str(plan.schedule), own.over(plan.options)
        first = begins if first is None else first
    first = when if first is None else first
    if first is None:
        raise TaskTypeError("when", None, _("is missing (timedelta(0) runs the task now)"))
    moment = checked_moment("when", first, using)
    inherited = (handler.queue, handler.priority) if handler else (DEFAULT_QUEUE, 0)
    new = NewTask(
        biz_code=code,
        biz_num=check_number(task.biz_num),
        when=moment,
        biz_ext=payloads.encoded(task.biz_ext),
        queue=check_queue(inherited[0] if task.queue in ("", None) else task.queue),
        priority=check_priority(inherited[1] if task.priority is None else task.priority),
        schedule=schedule,
        name=check_name(task.name),
        options=options_to_text(checked_options(own, moment, using)) if own else None,
        scheduled_time=None if schedule is None or task.when is None else moment,
    )
    if is_schedule_num(new.biz_num):
        raise TaskValueError("biz_num", new.biz_num, _("belongs to the schedule of its handler"))
    stored = _stored(task, new, using) if task.id else None
    for name in () if is_old else _TEXTS:
        text = getattr(new, name)
        if stored is None or text != stored[name]:
            check_new(name, text)
    return new


def _check_kind(task: object) -> None:
    if not isinstance(task, Task):
        raise TaskTypeError("task", task, _("must be a Task"))


def _own_options(task: Task) -> TaskOptions:
    if task.options is None or isinstance(task.options, TaskOptions):
        return task.options or NO_OPTIONS
    raise TaskTypeError("options", task.options, _("must be TaskOptions"))


def checked_moment(field: str, value: object, using: str) -> datetime:
    """A time that a caller gave, as aware UTC; a timedelta is from now, by the database's clock."""
    if isinstance(value, timedelta):
        try:
            return aware(field, clock.now(using) + value)
        except OverflowError:
            raise TaskValueError(field, value, _("is out of the range of times")) from None
    if value is not None and not isinstance(value, datetime):
        raise TaskTypeError(field, value, _("must be a datetime or a timedelta"))
    return aware(field, value)


def checked_options(options: TaskOptions, when: datetime | None, using: str) -> TaskOptions:
    """Options as they are stored, for a task that is due at ``when``, if that is known."""
    if options.expires is None:
        return options
    expires = checked_moment("expires", options.expires, using)
    if when is not None and expires < when:
        raise TaskValueError("expires", options.expires, _("comes before when: it would never run"))
    return replace(options, expires=expires)


def checked_schedule(schedule: object, using: str) -> tuple[Plan, datetime]:
    """A plan for a task, and its first time by the database's clock."""
    plan = as_plan(schedule)
    if isinstance(plan.schedule, Foreign):
        raise TaskValueError(
            "schedule",
            schedule,
            _("is known to this code alone: give it to a handler, or see from_apscheduler"),
        )
    now = clock.now(using)
    with budget(plan.schedule):
        return plan, first_time(plan.schedule, now)


def note_unknown(code: str) -> None:
    """Do what STRICT_CODES says about a code that no handler of this project has."""
    if handler_for(code) is not None:
        return
    wish = settings().strict_codes
    if wish == "raise":
        problem = _("has no handler in this project")
        if near := _near_code(code):
            problem = _("has no handler in this project (did you mean %(near)r?)", near=near)
        raise TaskValueError("biz_code", code, problem)
    if wish == "warn":
        _warn_once(code)


@lru_cache(maxsize=1024)
def _warn_once(code: str) -> None:
    logs.no_handler_here(code, _near_code(code))


def _near_code(code: str) -> str | None:
    return closest(code, get_task_handlers())


# Names of other schedulers, and ours.
ELSEWHERE = {
    **dict.fromkeys(("args", "kwargs"), "biz_ext"),
    **dict.fromkeys(("run_date", "next_run_time", "eta", "countdown"), "when"),
    "code": "biz_code",
    **dict.fromkeys(("id", "num", "key"), "biz_num"),
    "trigger": "schedule",
    "replace_existing": "on_conflict",
}


def check_names(call: str, given: dict[str, Any], known: frozenset[str]) -> None:
    """Raise TaskTypeError for an argument that a function does not have."""
    for name in given.keys() - known:
        near = ELSEWHERE.get(name) or near_name(name, known)
        problem = did_you_mean(_("is no argument of %(call)s()", call=call), near)
        raise TaskTypeError(name, given[name], problem)


def checked_key(biz_code: str, biz_num: Number) -> Key:
    """The key of one task."""
    return Key(check_code(biz_code), check_number(biz_num))


def checked_match(biz_code: str, fragment: Number, match: Match) -> Q:
    """All tasks of a code whose number matches ``fragment``, which must not be empty."""
    check_code(biz_code)
    if match == "all":
        if fragment != "":
            raise TaskValueError("biz_num", fragment, _("must be empty with match='all'"))
        return Q(biz_code=biz_code)
    if match == "exact":
        return checked_key(biz_code, fragment).matching
    if match not in ("prefix", "contains"):
        raise TaskValueError("match", match, _("must be 'exact', 'prefix', 'contains' or 'all'"))
    if not isinstance(fragment, str) and fragment is not None:
        check_number(fragment)
        raise TaskTypeError("biz_num", fragment, _("must be a text, or one task: match='exact'"))
    return search.containing(biz_code, check_fragment(fragment), at_start=match == "prefix")


def check_fragment(fragment: object) -> str:
    """A part of a number: blanks at its ends are part of it."""
    if not isinstance(fragment, str):
        return check_number(fragment)
    return check_text("biz_num", fragment, BIZ_NUM_LENGTH)


def check_code(biz_code: object) -> str:
    return check_key("biz_code", biz_code, BIZ_CODE_LENGTH)


def check_queue(queue: object) -> str:
    return check_key("queue", queue, QUEUE_LENGTH)


def terms_of_task(
    conflict: Conflict,
    wait: Duration | None,
    at_most: Duration | None,
    task: Any,
    paused: bool = False,
) -> DebounceTerms | None:
    """The terms of a debounced task; None if it is not debounced."""
    flag("paused", paused)
    terms = debounce_terms(conflict, wait, at_most)
    if terms is None:
        return None
    _check_kind(task)
    if paused:
        raise TaskValueError("paused", paused, _("does not go with on_conflict='debounce'"))
    if task.when is not None:
        raise TaskValueError("when", task.when, _("must be left out: wait says when"))
    if task.schedule is not None:
        raise TaskValueError("schedule", task.schedule, _("cannot be debounced"))
    return terms


# The texts of a row that people and programs choose.
_TEXTS = ("biz_code", "biz_num", "queue", "name")


def _stored(task: Task, new: NewTask, using: str) -> dict[str, str] | None:
    """The texts of a task that was read from the database: it may be added again, but only under
    its own key. None if its row has gone.
    """
    if not isinstance(task.id, int):
        raise TaskValueError("id", task.id, _("must be a whole number"))
    same_id = Task._base_manager.using(using).filter(pk=task.id)
    stored: dict[str, str] | None = same_id.values(*_TEXTS).first()
    if stored is not None and (key := (stored["biz_code"], stored["biz_num"])) != new[:2]:
        raise TaskValueError(
            "id", task.id, _("belongs to another task, %(key)s", key=on_a_line("/".join(key)))
        )
    return stored
