"""Find tasks, and steer all that are found in bounded batches. See ``django_tasks.api``."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from asgiref.sync import sync_to_async
from django.db.models import Q, QuerySet

from django_tasks import signals
from django_tasks.client.adding import DEFAULT_BATCH, MOST_IN_BATCH
from django_tasks.client.arguments import (
    Number,
    When,
    check_code,
    check_names,
    check_queue,
    checked_moment,
)
from django_tasks.client.cancelling import lines_at
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.models import Task
from django_tasks.sentences import sentence as _
from django_tasks.store import clock, control
from django_tasks.store.aliases import read_alias, write_alias
from django_tasks.store.dialects import dialect_of
from django_tasks.timezones import aware, for_django
from django_tasks.values.amounts import whole_number
from django_tasks.values.keys import check_number
from django_tasks.values.status import Status
from django_tasks.wakeup.wake import LONG_AGO, wake_workers

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
    many = _Many("cancelled", which, batch_size, progress, using)
    code = which.get("biz_code")

    def cancel(some: Q) -> int:
        now = many.now()
        return sum(control.cancel(some, now, using=many.using, line_of=lines_at(now, code)))

    return many.each(cancel)


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
    many = _Many("requeued", which, batch_size, progress, using)
    return many.each(lambda some: control.requeue(some, many.now(), using=many.using), due=LONG_AGO)


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
    many = _Many("rescheduled", which, batch_size, progress, using)
    moment = checked_moment("to", to, many.using)
    return many.each(
        lambda some: control.reschedule(some, moment, many.now(), using=many.using), due=moment
    )


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
    many = _Many("paused", which, batch_size, progress, using)
    return many.each(lambda some: control.pause(some, many.now(), using=many.using))


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
    many = _Many("resumed", which, batch_size, progress, using)
    return many.each(lambda some: control.resume(some, many.now(), using=many.using), due=LONG_AGO)


acancel_tasks = sync_to_async(cancel_tasks)
arequeue_tasks = sync_to_async(requeue_tasks)
amove_tasks = sync_to_async(move_tasks)
apause = sync_to_async(pause)
aresume = sync_to_async(resume)


# The functions of these changes, where they have another name.
_CALLED = {"cancelled": "cancel_tasks", "requeued": "requeue_tasks", "rescheduled": "move_tasks"}
_CALLED |= {"paused": "pause", "resumed": "resume"}


class _Many:
    """One change of all tasks that match, a batch at a time."""

    def __init__(
        self,
        change: str,
        which: Filter,
        batch_size: int,
        progress: Progress | None,
        using: str | None,
    ) -> None:
        self.using = write_alias(using)
        check_names(_CALLED.get(change, change), dict(which), frozenset(Filter.__annotations__))
        self._which: dict[str, Any] = {k: v for k, v in which.items() if v is not None}
        if not self._which:
            raise TaskValueError("biz_code", None, _("or another filter must be given"))
        self._matching = _matching(which, self.using)
        self._change = change
        self._size = whole_number("batch_size", batch_size, 1, MOST_IN_BATCH)
        self._progress = progress

    def now(self) -> datetime:
        return clock.now(self.using)

    def each(self, change: Callable[[Q], int], due: datetime | None = None) -> int:
        """Change what is found; ``due`` is when workers may have to look.

        In the order of ids, so that no task is met twice.
        """
        count, last = 0, 0
        rows = Task._base_manager.using(self.using).filter(self._matching)
        try:
            while ids := list(self._after(last, rows)):
                last = ids[-1]
                changed = control.among(rows, ids, change, using=self.using)
                count += changed
                if changed and due is not None:
                    wake_workers(due, self.using, changed)
                if self._progress is not None:
                    self._progress(count)
        finally:
            self._tell(count)
        return count

    def _tell(self, count: int) -> None:
        if count:
            signals.tasks_changed.send_robust(
                Task, change=self._change, which=self._which, count=count, using=self.using
            )

    def _after(self, last: int, rows: "QuerySet[Task]") -> "QuerySet[Task, int]":
        found = rows.filter(id__gt=last).order_by("id")
        return found.values_list("id", flat=True)[: self._size]


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
        return [_status(value)]
    if not isinstance(value, Iterable):
        raise TaskTypeError("status", value, _("must be a Status, its name, or several of them"))
    return [_status(each) for each in value]


def _status(value: Any) -> Status:
    try:
        return Status[value.upper()] if isinstance(value, str) else Status(value)
    except (KeyError, ValueError):
        names = ", ".join(repr(each.name.lower()) for each in Status)
        raise TaskValueError(
            "status", value, _("must be one of %(choices)s", choices=names)
        ) from None
