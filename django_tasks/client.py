"""What other code does to tasks: add, cancel, move, look up. See ``django_tasks.api``."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from asgiref.sync import sync_to_async

from django_tasks import signals
from django_tasks.backoff import Duration
from django_tasks.conf import options
from django_tasks.exceptions import TaskExists, TaskTypeError, TaskValueError
from django_tasks.handlers.registry import handler_for
from django_tasks.intake import (
    Conflict,
    ConflictOfMany,
    Match,
    check_code,
    checked_batch_size,
    checked_conflict,
    checked_conflict_of_many,
    checked_key,
    checked_match,
    checked_patience,
    checked_task,
)
from django_tasks.models import Task, TaskRun
from django_tasks.store import clock, search, steer
from django_tasks.store.aliases import read_alias, write_alias
from django_tasks.store.batches import batches
from django_tasks.store.debounce import Patience, debounce
from django_tasks.store.dialects import dialect_of
from django_tasks.store.steer import CancelResult
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.store.upsert import NewTask, OnConflict, upsert, upsert_one
from django_tasks.timezones import aware, for_django
from django_tasks.values import payload
from django_tasks.values.keys import BIZ_NUM_LENGTH, check_text
from django_tasks.wakeup.wake import wake_workers

DEFAULT_BATCH = 500


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
    writes). Raises TaskValueError or TaskTypeError, naming field and
    value, before anything is stored; UnknownDatabase for a bad alias.
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
    size = checked_batch_size(batch_size)
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


def cancel_task(biz_code: str, biz_num: str, *, using: str | None = None) -> CancelResult:
    """Cancel the task of a key.

    CANCELLED: it was waiting, its row is gone and it will not start. CANCELLING: it is running;
    its handler sees ``task.cancel_requested``, and whatever it returns it will not run again.
    NOT_FOUND, which is false while the others are true: there is no such task. Atomic, and part of
    the caller's transaction.
    """
    alias = write_alias(using)
    matching = checked_key(biz_code, biz_num)
    done = steer.cancel(matching, clock.now(alias), using=alias)
    result = CancelResult.NOT_FOUND
    if done.gone or done.going:
        result = CancelResult.CANCELLED if done.gone else CancelResult.CANCELLING
        signals.task_cancelled.send_robust(
            Task, biz_code=biz_code, biz_num=biz_num, result=result, using=alias
        )
    return result


def delete_tasks(
    biz_code: str,
    biz_num: str,
    *,
    match: Match = "contains",
    dry_run: bool = False,
    using: str | None = None,
) -> int:
    """Cancel all tasks of ``biz_code`` whose number contains ``biz_num``; returns how many.

    The comparison is literal and case-sensitive on every database; ``match`` may be "exact" or
    "prefix" instead. An empty ``biz_num`` is refused: it would match everything. Waiting tasks are
    deleted, running ones are cancelled as ``cancel_task`` does. ``dry_run`` only counts. Atomic.
    """
    alias = write_alias(using)
    matching = checked_match(biz_code, biz_num, match)
    if dry_run:
        return Task._base_manager.using(alias).filter(matching).count()
    done = steer.cancel(matching, clock.now(alias), using=alias)
    if count := sum(done):
        facts = {"biz_code": biz_code, "biz_num": biz_num, "match": match, "count": count}
        signals.tasks_cancelled.send_robust(Task, **facts, using=alias)
    return count


def get_task(biz_code: str, biz_num: str, *, using: str | None = None) -> Task | None:
    """The task of a key in whatever status, or None."""
    return (
        Task._base_manager.using(read_alias(using)).filter(checked_key(biz_code, biz_num)).first()
    )


def get_runs(
    biz_code: str, biz_num: str, limit: int = 100, *, using: str | None = None
) -> list[TaskRun]:
    """Runs of a key that have ended, the last one first, also when its task is gone.

    Those that the history keeps: see ``TaskHandler.history`` and the settings HISTORY and
    HISTORY_AGE. At most ``limit`` of them.
    """
    if type(limit) is not int or limit < 0:
        raise TaskValueError("limit", limit, "must be a whole number, 0 or more")
    runs = TaskRun._base_manager.using(read_alias(using)).filter(checked_key(biz_code, biz_num))
    return list(runs.order_by("-id")[:limit])


def get_tasks_by_code(
    biz_code: str,
    biz_num: str = "",
    when: datetime | None = None,
    *,
    using: str | None = None,
) -> list[Task]:
    """Waiting (PENDING) tasks of a code, earliest first.

    ``biz_num``: those whose number contains it, regardless of case. ``when``: those due exactly
    then if there are any, else those due later.
    """
    alias = read_alias(using)
    check_code(biz_code)
    if biz_num != "":
        check_text("biz_num", biz_num, BIZ_NUM_LENGTH)
    pending = search.pending_like(biz_code, biz_num, using=alias)
    if when is None:
        return list(pending)
    moment = for_django(dialect_of(alias).storable(aware("when", when)))
    return list(pending.filter(when=moment)) or list(pending.filter(when__gt=moment))


def reschedule_task(
    biz_code: str, biz_num: str, when: datetime, *, using: str | None = None
) -> bool:
    """Move the task of a key to another time, payload kept; False if there is none.

    As ``add_task`` does: a FAILED one waits again, a running one runs again then, one that is
    being cancelled lives on. A paused one stays paused. Atomic.
    """
    alias = write_alias(using)
    moment = aware("when", when)
    done = steer.reschedule(checked_key(biz_code, biz_num), moment, clock.now(alias), using=alias)
    return _changed(done, "rescheduled", biz_code, biz_num, alias, moment)


def run_task_now(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Make the task of a key due now, paused and FAILED ones too; False if there is none."""
    alias = write_alias(using)
    moment = clock.now(alias)
    done = steer.run_now(checked_key(biz_code, biz_num), moment, using=alias)
    return _changed(done, "due now", biz_code, biz_num, alias, moment)


def pause_task(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Pause the task of a key: it will not start until resumed. A running one ends its run first.

    False if that changed nothing: there is none, or it is paused, FAILED or being cancelled.
    """
    alias = write_alias(using)
    done = steer.pause(checked_key(biz_code, biz_num), clock.now(alias), using=alias)
    return _changed(done, "paused", biz_code, biz_num, alias)


def resume_task(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Undo ``pause_task``; False if that changed nothing."""
    alias = write_alias(using)
    moment = clock.now(alias)
    done = steer.resume(checked_key(biz_code, biz_num), moment, using=alias)
    return _changed(done, "resumed", biz_code, biz_num, alias, moment)


def requeue_task(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Give a FAILED task a fresh start, due now; False if there is no FAILED task of that key."""
    alias = write_alias(using)
    moment = clock.now(alias)
    done = steer.requeue(checked_key(biz_code, biz_num), moment, using=alias)
    return _changed(done, "requeued", biz_code, biz_num, alias, moment)


aadd_task = sync_to_async(add_task)
aadd_tasks = sync_to_async(add_tasks)
acancel_task = sync_to_async(cancel_task)
adelete_tasks = sync_to_async(delete_tasks)
aget_task = sync_to_async(get_task)
aget_runs = sync_to_async(get_runs)
aget_tasks_by_code = sync_to_async(get_tasks_by_code)
areschedule_task = sync_to_async(reschedule_task)
arun_task_now = sync_to_async(run_task_now)
apause_task = sync_to_async(pause_task)
aresume_task = sync_to_async(resume_task)
arequeue_task = sync_to_async(requeue_task)


# Storing and telling


def _debounced(task: Task, patience: Patience, using: str) -> Task:
    moment = clock.now(using)
    new = checked_task(task, using, when=moment + patience.wait)
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


def _changed(
    count: int,
    change: str,
    biz_code: str,
    biz_num: str,
    using: str,
    when: datetime | None = None,
) -> bool:
    """Whether a task was changed; if so, listeners are told, and sleeping workers if it may be due
    at ``when``."""
    if not count:
        return False
    signals.task_changed.send_robust(
        Task, biz_code=biz_code, biz_num=biz_num, change=change, using=using
    )
    if when is not None:
        wake_workers(when, using)
    return True
