"""The place where added tasks go: the database, or what a project's tests put in its stead."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from django_tasks import signals
from django_tasks.exceptions import TaskExists
from django_tasks.models import Task
from django_tasks.sentences import sentence as _
from django_tasks.store import clock, search
from django_tasks.store.batches import batches
from django_tasks.store.debounce import debounce
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.store.upsert import NewTask, upsert, upsert_one
from django_tasks.values.conflicts import DebounceTerms, OnConflict
from django_tasks.wakeup.wake import wake_workers

# One task of ``add_tasks``: its place among them, and as it will be stored.
Item = tuple[int, NewTask]
# Code and number.
Key = tuple[str, str]
# The new payload of a debounced task, made of the one that waits: JSON texts.
Merge = Callable[[str | None], str | None]


class Storage(Protocol):
    """Takes tasks that were checked. Each call is atomic."""

    def one(
        self, new: NewTask, conflict: OnConflict, *, using: str, paused: bool
    ) -> tuple[Task, bool]:
        """Store one task; returns its row, and whether it was inserted or moved."""

    def debounced(
        self, new: NewTask, terms: DebounceTerms, merged: Merge, now: datetime, *, using: str
    ) -> Task:
        """Store a debounced task and return its row."""

    def many(
        self, items: Sequence[Item], conflict: OnConflict, batch_size: int, *, using: str
    ) -> tuple[set[Key], list[Task]]:
        """Store tasks of different keys: the keys that were moved, and their rows if somebody
        listens for them.
        """

    def payload(self, task: Task, *, using: str) -> str | None:
        """The payload of a task that was stored, JSON text: a decoder may make anything of it."""

    def wake(self, first: datetime, tasks: int = 1, *, using: str) -> None:
        """Wake workers for stored tasks that are due from ``first`` on."""


class Database:
    """The tables of the alias."""

    def one(
        self, new: NewTask, conflict: OnConflict, *, using: str, paused: bool
    ) -> tuple[Task, bool]:
        return _stored(new, conflict, using=using, paused=paused)

    def debounced(
        self, new: NewTask, terms: DebounceTerms, merged: Merge, now: datetime, *, using: str
    ) -> Task:
        return _store_debounced(new, terms, merged, now, using=using)

    def many(
        self, items: Sequence[Item], conflict: OnConflict, batch_size: int, *, using: str
    ) -> tuple[set[Key], list[Task]]:
        return _store_all(items, conflict, batch_size, using=using)

    def payload(self, task: Task, *, using: str) -> str | None:
        return search.payload_of(task.biz_code, task.biz_num, using=using)

    def wake(self, first: datetime, tasks: int = 1, *, using: str) -> None:
        wake_workers(first, using, tasks)


_storage: Storage = Database()


def storage() -> Storage:
    """The place where added tasks go at present."""
    return _storage


@contextmanager
def replaced(other: Storage) -> Iterator[None]:
    """Have ``other`` take added tasks meanwhile, in the whole process: for tests alone."""
    global _storage
    before, _storage = _storage, other
    try:
        yield
    finally:
        _storage = before


def is_captured(task: Task) -> bool:
    """Tell if a task was added and no database has it: see ``captured_tasks``."""
    return task.id < 0


def already_exists(new: NewTask, index: int | None = None) -> TaskExists:
    """The error of an add with "raise"; ``index`` is the place of the task in ``add_tasks``."""
    return TaskExists(
        "biz_num",
        new.biz_num,
        _("of %(biz_code)r exists already", biz_code=new.biz_code),
        index=index,
    )


_store_debounced = retried(debounce)


@retried
def _stored(new: NewTask, conflict: OnConflict, *, using: str, paused: bool) -> tuple[Task, bool]:
    if conflict is not OnConflict.RAISE:
        return upsert_one(new, conflict, clock.now(using), using=using, paused=paused)
    with write_transaction(using):
        stored, moved = upsert_one(new, conflict, clock.now(using), using=using, paused=paused)
        if not moved:
            raise already_exists(new)
        return stored, moved


@retried
def _store_all(
    items: Sequence[Item], conflict: OnConflict, batch_size: int, *, using: str
) -> tuple[set[Key], list[Task]]:
    moved: set[Key] = set()
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


def _refuse_unmoved(batch: Sequence[Item], moved: set[Key]) -> None:
    for index, new in batch:
        if new[:2] not in moved:
            raise already_exists(new, index)
