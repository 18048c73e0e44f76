"""Look tasks and their runs up. See ``django_tasks.api``."""

from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet

from django_tasks.client.arguments import Number, check_code, check_fragment, checked_key
from django_tasks.locks import rows
from django_tasks.locks.rows import LockState
from django_tasks.models import Task, TaskRun
from django_tasks.store import search
from django_tasks.store.aliases import read_alias
from django_tasks.store.dialects import dialect_of
from django_tasks.timezones import aware, for_django
from django_tasks.values.amounts import whole_number
from django_tasks.values.keys import lock_of

# Of one answer; more would be a way to fill the memory.
MOST_RUNS = 1_000_000


def get_task(biz_code: str, biz_num: Number, *, using: str | None = None) -> Task | None:
    """The task of a key in whatever status, or None."""
    key = checked_key(biz_code, biz_num)
    return Task._base_manager.using(read_alias(using)).filter(key.matching).first()


def get_active(biz_code: str, *, using: str | None = None) -> LockState | None:
    """The active worker of a sticky handler: ``holder``, ``since``, ``term`` and ``until``.

    None while there is none. Raises TaskValueError or TaskTypeError for a bad code, UnknownDatabase
    for a bad alias.
    """
    state = rows.state(lock_of(check_code(biz_code)), using=read_alias(using))
    return state if state is not None and state.is_held else None


def get_runs(
    biz_code: str, biz_num: Number, limit: int = 100, *, using: str | None = None
) -> list[TaskRun]:
    """Runs of a key that have ended, the last one first, also when its task is gone.

    Those that the history keeps: see ``TaskHandler.history`` and the settings HISTORY and
    HISTORY_AGE. At most ``limit`` of them.
    """
    whole_number("limit", limit, 0, MOST_RUNS)
    key = checked_key(biz_code, biz_num)
    runs = TaskRun._base_manager.using(read_alias(using)).filter(key.matching)
    return list(runs.order_by("-id")[:limit])


def get_tasks_by_code(
    biz_code: str | None = None,
    biz_num: Number | None = None,
    when: datetime | None = None,
    *,
    using: str | None = None,
) -> "QuerySet[Task]":
    """Waiting (PENDING) tasks, earliest first, as a queryset; None means any.

    ``biz_num``: those whose number contains it, regardless of case. ``when``: those due exactly
    then if there are any, else those due later. Other questions: ``find_tasks``.
    """
    alias = read_alias(using)
    if biz_code is not None:
        check_code(biz_code)
    fragment = "" if biz_num in (None, "") else check_fragment(biz_num)
    pending = search.pending_like(biz_code or "", fragment, using=alias)
    if when is None:
        return pending
    moment = for_django(dialect_of(alias).storable(aware("when", when)))
    exactly = pending.filter(when=moment)
    return exactly if exactly.exists() else pending.filter(when__gt=moment)


def _listed(*args: Any, **kwargs: Any) -> list[Task]:
    return list(get_tasks_by_code(*args, **kwargs))


aget_task = sync_to_async(get_task)
aget_active = sync_to_async(get_active)
aget_runs = sync_to_async(get_runs)
# A queryset would be read where no thread may wait.
aget_tasks_by_code = sync_to_async(_listed)
