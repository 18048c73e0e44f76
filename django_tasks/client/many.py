"""Find tasks, and steer all that are found in bounded batches. See ``django_tasks.api``."""

from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from asgiref.sync import sync_to_async
from django.db.models import Q, QuerySet

from django_tasks.client.adding import DEFAULT_BATCH, MOST_IN_BATCH
from django_tasks.client.arguments import (
    Number,
    When,
    check_code,
    check_names,
    check_queue,
    checked_moment,
)
from django_tasks.client.changes import VERBS, Meant, Step, change_all, touched_by
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.models import Task
from django_tasks.sentences import sentence as _
from django_tasks.store.aliases import read_alias, write_alias
from django_tasks.store.dialects import dialect_of
from django_tasks.timezones import aware, for_django
from django_tasks.values.amounts import whole_number
from django_tasks.values.keys import check_number
from django_tasks.values.status import Status

if TYPE_CHECKING:
    from typing import Unpack

OneStatus = Status | int | str
# Called with the number of tasks that were changed so far.
Progress = Callable[[int], object]


class Filter(TypedDict, total=False):
    """The tasks that are meant: all that match exactly what is named. None: any."""

    biz_code: str | None
    biz_num: Number | None
    when: datetime | None
    status: OneStatus | Iterable[OneStatus] | None
    queue: str | None


def find_tasks(
    biz_code: str | None = None,
    biz_num: Number | None = None,
    when: datetime | None = None,
    status: OneStatus | Iterable[OneStatus] | None = None,
    queue: str | None = None,
    *,
    using: str | None = None,
) -> "QuerySet[Task]":
    """The tasks that match all that is named, exactly, as a queryset; every task if nothing is.

    ``status`` is one of ``Status`` or its name ("failed"), or several of them. The queryset reads
    the database ``using`` (default: what the router says for reads) when it is used. Raises
    TaskTypeError or TaskValueError for a value that no task can have.
    """
    alias = read_alias(using)
    which: Filter = {
        "biz_code": biz_code,
        "biz_num": biz_num,
        "when": when,
        "status": status,
        "queue": queue,
    }
    return Task.objects.using(alias).filter(_matching(which, alias))


def cancel_tasks(
    *,
    batch_size: int = DEFAULT_BATCH,
    progress: Progress | None = None,
    using: str | None = None,
    **which: "Unpack[Filter]",
) -> int:
    """Cancel all tasks that ``find_tasks(**which)`` finds; returns how many.

    Each as ``cancel_task`` does. Something must be named. ``batch_size`` of them, 1 to 1,000, go in
    one transaction, and ``progress`` is called after it with the number so far. If a later batch
    fails, the earlier ones stand. Inside a caller's transaction all of it is part of that.
    """
    return _each(Step.CANCEL, which, batch_size, progress, using)


def requeue_tasks(
    *,
    batch_size: int = DEFAULT_BATCH,
    progress: Progress | None = None,
    using: str | None = None,
    **which: "Unpack[Filter]",
) -> int:
    """Give the FAILED ones among ``find_tasks(**which)`` a fresh start, due now; returns how many.

    With nothing named, all that have FAILED. In batches as ``cancel_tasks``.
    """
    if which.get("status") is None:
        which["status"] = Status.FAILED
    return _each(Step.REQUEUE, which, batch_size, progress, using)


def move_tasks(
    to: When,
    *,
    batch_size: int = DEFAULT_BATCH,
    progress: Progress | None = None,
    using: str | None = None,
    **which: "Unpack[Filter]",
) -> int:
    """Move all tasks that ``find_tasks(**which)`` finds to the time ``to``; returns how many.

    Each as ``reschedule_task`` does; ``to`` is a datetime, naive in the current time zone, or a
    timedelta from now. In batches as ``cancel_tasks``.
    """
    return _each(Step.MOVE, which, batch_size, progress, using, to)


def pause(
    *,
    batch_size: int = DEFAULT_BATCH,
    progress: Progress | None = None,
    using: str | None = None,
    **which: "Unpack[Filter]",
) -> int:
    """Pause all tasks that ``find_tasks(**which)`` finds; returns how many.

    Each as ``pause_task`` does. One that is added later is not paused: ``pause_tasks`` stops a
    whole code or queue. In batches as ``cancel_tasks``.
    """
    return _each(Step.PAUSE, which, batch_size, progress, using)


def resume(
    *,
    batch_size: int = DEFAULT_BATCH,
    progress: Progress | None = None,
    using: str | None = None,
    **which: "Unpack[Filter]",
) -> int:
    """Undo ``pause`` and ``pause_task`` for all tasks that match; returns how many.

    In batches as ``cancel_tasks``.
    """
    return _each(Step.RESUME, which, batch_size, progress, using)


acancel_tasks = sync_to_async(cancel_tasks)
arequeue_tasks = sync_to_async(requeue_tasks)
amove_tasks = sync_to_async(move_tasks)
apause = sync_to_async(pause)
aresume = sync_to_async(resume)


def _each(
    step: Step,
    which: Filter,
    batch_size: int,
    progress: Progress | None,
    using: str | None,
    to: When | None = None,
) -> int:
    using = write_alias(using)
    check_names(VERBS[step].called, dict(which), frozenset(Filter.__annotations__))
    said = {name: value for name, value in which.items() if value is not None}
    if not said:
        raise TaskValueError("biz_code", None, _("or another filter must be given"))
    found = touched_by(step, Task._base_manager.using(using).filter(_matching(which, using)))
    size = whole_number("batch_size", batch_size, 1, MOST_IN_BATCH)
    moment = checked_moment("to", to, using) if step is Step.MOVE else None
    tasks, count = Meant(found.all, said, which.get("biz_code")), 0
    with closing(change_all(tasks, step, moment, using=using, size=size)) as batches:
        for batch in batches:
            count += batch.changed
            if progress is not None:
                progress(count)
    return count


def _matching(which: Filter, using: str) -> Q:
    matching = Q()
    if (code := which.get("biz_code")) is not None:
        matching &= Q(biz_code=check_code(code))
    if (number := which.get("biz_num")) is not None:
        matching &= Q(biz_num=check_number(number))
    if (when := which.get("when")) is not None:
        moment = dialect_of(using).storable(aware("when", when))
        matching &= Q(when=for_django(moment))
    if (status := which.get("status")) is not None:
        matching &= Q(status__in=_statuses(status))
    if (queue := which.get("queue")) is not None:
        matching &= Q(queue=check_queue(queue))
        if status is None:  # an index has queues, by status
            matching &= Q(status__in=list(Status))
    return matching


def _statuses(value: OneStatus | Iterable[OneStatus]) -> list[Status]:
    if isinstance(value, (str, int)):
        return [status_of(value)]
    if not isinstance(value, Iterable):
        raise TaskTypeError("status", value, _("must be a Status, its name, or several of them"))
    return [status_of(each) for each in value]


def status_of(value: Any) -> Status:
    """A status, or the one of that name. Raises TaskValueError."""
    try:
        return Status[value.upper()] if isinstance(value, str) else Status(value)
    except (KeyError, ValueError):
        names = ", ".join(repr(each.name.lower()) for each in Status)
        raise TaskValueError(
            "status", value, _("must be one of %(choices)s", choices=names)
        ) from None
