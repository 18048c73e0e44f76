"""Look tasks and their runs up. See ``django_tasks.api``."""

from datetime import datetime

from asgiref.sync import sync_to_async

from django_tasks.client.arguments import check_code, checked_key
from django_tasks.models import Task, TaskRun
from django_tasks.store import search
from django_tasks.store.aliases import read_alias
from django_tasks.store.dialects import dialect_of
from django_tasks.timezones import aware, for_django
from django_tasks.values.amounts import whole_number
from django_tasks.values.keys import BIZ_NUM_LENGTH, check_text

# Of one answer; more would be a way to fill the memory.
MOST_RUNS = 1_000_000


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
    whole_number("limit", limit, 0, MOST_RUNS)
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


aget_task = sync_to_async(get_task)
aget_runs = sync_to_async(get_runs)
aget_tasks_by_code = sync_to_async(get_tasks_by_code)
