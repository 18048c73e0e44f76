"""Add tasks, one or many. See ``django_tasks.api``."""

from collections.abc import Iterable, Iterator

from asgiref.sync import sync_to_async

from django_tasks import signals
from django_tasks.backoff import Duration
from django_tasks.client.arguments import (
    Conflict,
    ConflictOfMany,
    checked_conflict,
    checked_conflict_of_many,
    checked_patience,
    checked_task,
)
from django_tasks.conf import options
from django_tasks.exceptions import TaskExists, TaskTypeError, TaskValueError
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task
from django_tasks.store import clock, search
from django_tasks.store.aliases import write_alias
from django_tasks.store.batches import batches
from django_tasks.store.debounce import Patience, debounce
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.store.upsert import NewTask, OnConflict, upsert, upsert_one
from django_tasks.timezones import aware
from django_tasks.values import payload
from django_tasks.values.amounts import whole_number
from django_tasks.wakeup.wake import wake_workers

DEFAULT_BATCH, MOST_IN_BATCH = 500, 1000


def add_task(
    task: Task,
    *,
    on_conflict: Conflict = "replace",
    wait: Duration | None = None,
    at_most: Duration | None = None,
    using: str | None = None,
) -> Task:
    """Store ``task`` under its key ``(biz_code, biz_num)`` and return it as stored.

    A task that exists is moved: it gets the new ``when``, ``biz_ext``, ``queue`` and ``priority``,
    and a FAILED one waits again; one that is running runs again afterwards, at the new time.
    ``on_conflict`` says otherwise: "keep" leaves it, "earliest" moves it only to an earlier time,
    "raise" raises TaskExists; a task that is being cancelled counts as absent. "debounce" makes it
    due when nobody has added it for ``wait`` (timedelta or seconds), and no later than ``at_most``
    after it was first added; the payloads of tasks that wait go through the handler's ``merge``.

    ``when`` is a datetime, naive in the current time zone. ``schedule`` is a value of
    ``django_tasks.schedules`` or its text: the task runs again and again, first at ``when``, or
    without one at the schedule's first time. Of ``task``, only these, ``biz_code``, ``biz_num``,
    ``biz_ext``, ``queue`` and ``priority`` are read; without the last two, its handler's are taken.

    Atomic, and part of the caller's transaction on ``using`` (default: what the router says for
    writes). Raises TaskValueError or TaskTypeError, naming field and value, before anything is
    stored; UnknownDatabase for a bad alias.
    """
    alias = write_alias(using)
    patience = checked_patience(on_conflict, wait, at_most, task)
    if patience is not None:
        return _debounced(task, patience, alias)
    conflict = checked_conflict(on_conflict)
    new = checked_task(task, alias)
    stored, moved = _stored(new, conflict, using=alias)
    if moved:
        signals.task_added.send_robust(Task, task=stored, using=alias)
        wake_workers(new.when, alias)
    return stored


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
    moved, stored = _store_all(items, conflict, size, using=alias)
    for task in stored:
        signals.task_added.send_robust(Task, task=task, using=alias)
    if moved:
        first = min(by_key[key][1].when for key in moved)
        wake_workers(first, alias, len(moved))
    return len(moved)


aadd_task = sync_to_async(add_task)
aadd_tasks = sync_to_async(add_tasks)


# Storing


def _debounced(task: Task, patience: Patience, using: str) -> Task:
    moment = clock.now(using)
    new = checked_task(task, using, when=moment)  # the store says when, by its patience
    handler = handler_for(new.biz_code)

    def merged(waiting: str | None) -> str | None:
        if handler is None:
            return new.biz_ext
        both = handler.merge(payload.load(waiting), payload.load(new.biz_ext))
        return payload.dump(both, options().payload_limit)

    stored = _store_debounced(new, patience, merged, moment, using=using)
    signals.task_added.send_robust(Task, task=stored, using=using)
    wake_workers(aware("when", stored.when), using)
    return stored


_store_debounced = retried(debounce)


@retried
def _stored(new: NewTask, conflict: OnConflict, *, using: str) -> tuple[Task, bool]:
    if conflict is not OnConflict.RAISE:
        return upsert_one(new, conflict, clock.now(using), using=using)
    with write_transaction(using):
        stored, moved = upsert_one(new, conflict, clock.now(using), using=using)
        if not moved:
            raise _exists(new)
        return stored, moved


# One task of ``add_tasks``: its place, and as it will be stored.
Item = tuple[int, NewTask]


def _checked(tasks: Iterable[Task], using: str) -> Iterator[Item]:
    if not isinstance(tasks, Iterable):
        raise TaskTypeError("tasks", tasks, "must be an iterable of Tasks")
    for index, task in enumerate(tasks):
        try:
            yield index, checked_task(task, using)
        except TaskValueError as error:
            error.index = index
            raise


@retried
def _store_all(
    items: list[Item], conflict: OnConflict, batch_size: int, *, using: str
) -> tuple[set[tuple[str, str]], list[Task]]:
    """The keys that were moved, and their rows if somebody listens for them."""
    moved: set[tuple[str, str]] = set()
    stored: list[Task] = []
    heard = signals.task_added.has_listeners(Task)
    with write_transaction(using):
        moment = clock.now(using)
        for batch in batches(items, batch_size, _long_texts):
            keys = upsert([new for _, new in batch], conflict, moment, using=using)
            moved |= keys
            if conflict is OnConflict.RAISE:
                _refuse_unmoved(batch, moved)
            if heard:  # now, while our transaction keeps workers away from the rows
                stored += search.with_keys(keys, using=using)
    return moved, stored


def _long_texts(item: Item) -> tuple[str | None, ...]:
    _, new = item
    return new.biz_ext, new.schedule


def _refuse_unmoved(batch: list[Item], moved: set[tuple[str, str]]) -> None:
    for index, new in batch:
        if new[:2] not in moved:
            raise _exists(new, index)


def _exists(new: NewTask, index: int | None = None) -> TaskExists:
    return TaskExists("biz_num", new.biz_num, f"of {new.biz_code!r} exists already", index=index)
