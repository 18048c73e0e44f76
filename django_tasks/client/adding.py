"""Add tasks, one or many. See ``django_tasks.api``."""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime, timedelta
from inspect import isclass
from typing import TYPE_CHECKING, Any, TypedDict, overload

from asgiref.sync import sync_to_async

from django_tasks import payloads, signals
from django_tasks.backoff import Backoff, Duration
from django_tasks.client.arguments import (
    Number,
    check_names,
    checked_task,
    note_unknown,
    terms_of_task,
)
from django_tasks.client.storing import Item, storage
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task
from django_tasks.schedules import Schedule
from django_tasks.sentences import sentence as _
from django_tasks.store import clock
from django_tasks.store.aliases import write_alias
from django_tasks.store.upsert import NewTask
from django_tasks.timezones import aware
from django_tasks.values.amounts import whole_number
from django_tasks.values.conflicts import (
    Conflict,
    ConflictOfMany,
    DebounceTerms,
    OnConflict,
    checked_conflict,
    checked_conflict_of_many,
)
from django_tasks.values.keys import random_text
from django_tasks.values.options import NAMES, NO_OPTIONS, OnMisfire, TaskOptions


class GivenOptions(TypedDict, total=False):
    """The options of one task, as ``TaskOptions`` has them; None: as its handler says."""

    max_attempts: int | None
    timeout: Duration | None
    expires: datetime | timedelta | None
    backoff: Backoff | Duration | Sequence[Duration] | None
    misfire_grace_time: Duration | None
    on_misfire: OnMisfire | None
    coalesce: bool | None
    catch_up: int | None


class Facts(GivenOptions, total=False):
    """All that can be said of a task besides its key.

    ``when``        a datetime, naive in the current time zone, or a timedelta from now by the
                    database's clock
    ``biz_ext``     the payload: JSON, as PAYLOAD_ENCODER writes it
    ``schedule``    a value of ``django_tasks.schedules`` or its text: the task runs again and
                    again, first at ``when``, or without one at the schedule's first time
    ``queue``, ``priority``  None: as the handler says
    ``name``        for people, up to 200 characters
    """

    when: datetime | timedelta
    biz_ext: Any
    schedule: Schedule | str | timedelta | None
    queue: str | None
    priority: int | None
    name: str


OPTIONS = NAMES
FACTS = frozenset(Facts.__annotations__) | OPTIONS


if TYPE_CHECKING:
    from typing import Unpack

    from django_tasks.client.adding import Facts, GivenOptions

DEFAULT_BATCH, MOST_IN_BATCH = 500, 1000
# 130 bits: nobody meets another one's number.
RANDOM_LENGTH = 22
_LEFT_OUT: Any = object()


@overload
def add_task(
    task: Task,
    *,
    on_conflict: Conflict = "replace",
    wait: Duration | None = None,
    at_most: Duration | None = None,
    paused: bool = False,
    using: str | None = None,
    **facts: "Unpack[GivenOptions]",
) -> Task: ...


@overload
def add_task(
    task: str | TaskHandler | type[TaskHandler],
    biz_num: Number = ...,
    *,
    on_conflict: Conflict = "replace",
    wait: Duration | None = None,
    at_most: Duration | None = None,
    paused: bool = False,
    using: str | None = None,
    **facts: "Unpack[Facts]",
) -> Task: ...


def add_task(
    task: Task | str | TaskHandler | type[TaskHandler],
    biz_num: Number = _LEFT_OUT,
    *,
    on_conflict: Conflict = "replace",
    wait: Duration | None = None,
    at_most: Duration | None = None,
    paused: bool = False,
    using: str | None = None,
    **facts: Any,
) -> Task:
    """Store a task under its key and return it as stored; one that exists is moved.

    ``add_task("cancel_unpaid", order.pk, when=timedelta(minutes=30), biz_ext=…)``, with a handler
    for its code, or ``add_task(Task(…))``, which takes options besides. See ``Facts`` for all that
    can be said. A number that is left out is a random one of 22 characters, a time that is left out
    is now; None is neither. An int or a UUID is taken as its text.

    A task that exists takes over all of it: a FAILED one waits again, a running one runs again
    afterwards, at the new time. ``on_conflict`` says otherwise: "keep" leaves it, "earliest" moves
    it only to an earlier time, "raise" raises TaskExists; a task that is being cancelled counts as
    absent. "debounce" makes it due when nobody has added it for ``wait`` (timedelta or seconds), no
    later than ``at_most`` after the first add; payloads of tasks that wait go through the handler's
    ``merge``. ``paused`` adds it paused.

    Atomic, and part of the caller's transaction on ``using`` (default: what the router says for
    writes). Raises TaskValueError or TaskTypeError, naming field and value, before anything is
    stored; UnknownDatabase for a bad alias.
    """
    alias = write_alias(using)
    code = _code_of(task)
    task = _completed(task, biz_num, facts) if code is None else _made(code, biz_num, facts)
    terms = terms_of_task(on_conflict, wait, at_most, task, paused)
    if terms is not None:
        return _debounced(task, terms, alias)
    runs_now = code is not None and "when" not in facts and facts.get("schedule") is None
    new = checked_task(task, alias, when=clock.now(alias) if runs_now else None)
    return _added(new, checked_conflict(on_conflict), alias, paused)


def add_tasks(
    tasks: Iterable[Task],
    *,
    batch_size: int = DEFAULT_BATCH,
    on_conflict: ConflictOfMany = "replace",
    using: str | None = None,
) -> int:
    """Store many tasks, all or none; returns how many were inserted or moved.

    ``batch_size`` tasks go in one statement, all statements in one transaction. Of a key that
    comes twice the last one wins. ``on_conflict``: as for ``add_task``, without "debounce". The
    errors of ``add_task``; ``index`` and the message name the place of the bad task.
    """
    alias = write_alias(using)
    conflict = checked_conflict_of_many(on_conflict)
    size = whole_number("batch_size", batch_size, 1, MOST_IN_BATCH)
    by_key = {new[:2]: (place, new) for place, new in _checked(tasks, alias)}
    # Sorted over all batches: two callers with the same keys never wait for each other crosswise.
    items = [by_key[key] for key in sorted(by_key)]
    moved, stored = storage().many(items, conflict, size, using=alias)
    for task in stored:
        signals.task_added.send_robust(Task, task=task, using=alias)
    if moved:
        first = min(by_key[key][1].when for key in moved)
        storage().wake(first, len(moved), using=alias)
    return len(moved)


aadd_task = sync_to_async(add_task)
aadd_tasks = sync_to_async(add_tasks)


# The task that is meant


def _code_of(task: Any) -> str | None:
    if isinstance(task, str):
        return task
    if isinstance(task, TaskHandler):
        return task.get_biz_code()
    return task.biz_code if isclass(task) and issubclass(task, TaskHandler) else None


def _made(code: str, biz_num: Any, facts: dict[str, Any]) -> Task:
    """The task of a call with a code. None is no time: whatever it was to be, it is not known."""
    check_names("add_task", facts, FACTS)
    if "when" in facts and facts["when"] is None:
        raise TaskTypeError("when", None, _("is no time; leave it out to run the task now"))
    number = random_text(RANDOM_LENGTH) if biz_num is _LEFT_OUT else biz_num
    options = TaskOptions(**_options_among(facts))
    rest = {name: value for name, value in facts.items() if name not in OPTIONS}
    return Task(biz_code=code, biz_num=number, options=options, **rest)


def _completed(task: Any, biz_num: Any, facts: dict[str, Any]) -> Task:
    if not isinstance(task, Task):
        raise TaskTypeError("task", task, _("must be a biz_code, a handler or a Task"))
    if biz_num is not _LEFT_OUT:
        raise TaskTypeError("biz_num", biz_num, _("goes with a biz_code: a Task has its own"))
    if not facts:
        return task
    if said := sorted(facts.keys() & (FACTS - OPTIONS)):
        raise TaskTypeError(said[0], facts[said[0]], _("goes with a biz_code: a Task has its own"))
    check_names("add_task", facts, OPTIONS)
    completed = copy(task)
    completed.options = TaskOptions(**_options_among(facts)).over(task.options or NO_OPTIONS)
    return completed


def _options_among(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name in OPTIONS}


# Storing


def _added(new: NewTask, conflict: OnConflict, using: str, paused: bool) -> Task:
    note_unknown(new.biz_code)
    stored, moved = storage().one(new, conflict, using=using, paused=paused)
    if moved:
        signals.task_added.send_robust(Task, task=stored, using=using)
        storage().wake(new.when, using=using)
    return stored


def _debounced(task: Task, terms: DebounceTerms, using: str) -> Task:
    moment = clock.now(using)
    new = checked_task(task, using, when=moment + terms.wait)
    note_unknown(new.biz_code)
    handler = handler_for(new.biz_code)

    def merged(waiting: str | None) -> str | None:
        if handler is None:
            return new.biz_ext
        return payloads.encoded(
            handler.merge(payloads.decoded(waiting), payloads.decoded(new.biz_ext))
        )

    stored = storage().debounced(new, terms, merged, moment, using=using)
    signals.task_added.send_robust(Task, task=stored, using=using)
    storage().wake(aware("when", stored.when), using=using)
    return stored


def _checked(tasks: Iterable[Task], using: str) -> Iterator[Item]:
    if not isinstance(tasks, Iterable):
        raise TaskTypeError("tasks", tasks, _("must be an iterable of Tasks"))
    for index, task in enumerate(tasks):
        try:
            new = checked_task(task, using)
            note_unknown(new.biz_code)
            yield index, new
        except TaskValueError as error:
            error.index = index
            raise
