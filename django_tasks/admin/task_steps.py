"""The steps that a person takes with one task from its page, and the sentences about them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.models import Task
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.status import OWNED, Status


class PageStep(NamedTuple):
    """One step: its address, its button, and what it means in each status in which it makes sense.

    ``permission`` is the action of a permission for tasks. ``asks`` are the statuses in which the
    button leads to a page that asks first. ``take`` is called with code, number and database;
    ``done`` says afterwards that it was done, and ``logged`` stands in the log of changes.
    """

    address: str
    label: Any
    permission: str
    means: Mapping[Status, Any]
    asks: tuple[Status, ...]
    take: Callable[..., object]
    done: Any
    logged: Any


RUN_NOW = PageStep(
    "run-now",
    _("Run now"),
    "run",
    {
        Status.PENDING: _("It becomes due now, and the next free worker takes it."),
        Status.RUNNING: _(
            "It is running. This run goes on to its end, and then the task runs once more at once."
        ),
        Status.FAILED: _("It has failed. It becomes due now, with all its attempts."),
        Status.PAUSED: _("It is paused. It becomes due now, and is not paused any more."),
        Status.CANCELLING: _(
            "It is being cancelled while it runs. That is taken back, though its handler may have "
            "heard of it already: this run goes on, and then the task runs once more at once."
        ),
        Status.PAUSING: _(
            "It is running its last time before a pause. This run goes on to its end; then the "
            "task runs once more at once, and is not paused any more."
        ),
    },
    OWNED,
    lambda code, number, using: api.run_task_now(code, number, using=using),
    _("Task %(task)s is due now."),
    _("Run now."),
)
RESCHEDULE = PageStep(
    "reschedule",
    _("Reschedule to…"),
    "run",
    {
        Status.PENDING: _("It waits for the new time."),
        Status.RUNNING: _(
            "It is running. This run goes on to its end, and then the task waits for the new time."
        ),
        Status.PAUSED: _("It is paused, and stays paused; the new time counts when it is resumed."),
        Status.CANCELLING: _(
            "It is being cancelled while it runs. That is taken back, though its handler may have "
            "heard of it already: this run goes on, and then the task waits for the new time."
        ),
        Status.PAUSING: _(
            "It is running its last time before a pause. This run goes on to its end; then the "
            "task is paused, and the new time counts when it is resumed."
        ),
    },
    tuple(Status),
    lambda code, number, using, when: api.reschedule_task(code, number, when, using=using),
    _("Task %(task)s is due at %(when)s."),
    _("Rescheduled from %(before)s to %(when)s."),
)
PAUSE = PageStep(
    "pause",
    _("Pause"),
    "pause",
    {
        Status.PENDING: _("It will not start until somebody resumes it."),
        Status.RUNNING: _("It is running. This run goes on to its end, and then it is paused."),
    },
    (),
    lambda code, number, using: api.pause_task(code, number, using=using),
    _("Task %(task)s is paused."),
    _("Paused."),
)
RESUME = PageStep(
    "resume",
    _("Resume"),
    "pause",
    {
        Status.PAUSED: _("It waits for its time again."),
        Status.PAUSING: _("It is running, and goes on afterwards as if it had not been paused."),
    },
    (),
    lambda code, number, using: api.resume_task(code, number, using=using),
    _("Task %(task)s is not paused any more."),
    _("Resumed."),
)
REQUEUE = PageStep(
    "requeue",
    _("Requeue"),
    "run",
    {Status.FAILED: _("It has failed. It waits again, due now, with all its attempts.")},
    (),
    lambda code, number, using: api.requeue_task(code, number, using=using),
    _("Task %(task)s waits again, with all its attempts."),
    _("Requeued."),
)
_GONE_AT_ONCE = _(
    "It is not running, so it is gone at once and will not start. Its runs that have ended stay in "
    "the history."
)
_GONE_LATER = _(
    "It is running. Nobody stops this run: its handler can see that it was cancelled and end "
    "early. Whatever it returns, the task does not run again, and is gone when this run ends."
)
CANCEL = PageStep(
    "cancel",
    _("Cancel"),
    "cancel",
    {
        Status.PENDING: _GONE_AT_ONCE,
        Status.RUNNING: _GONE_LATER,
        Status.FAILED: _GONE_AT_ONCE,
        Status.PAUSED: _GONE_AT_ONCE,
        Status.PAUSING: _GONE_LATER,
    },
    tuple(Status),
    lambda code, number, using: api.cancel_task(code, number, using=using),
    _("Task %(task)s is cancelled."),
    _("Cancelled."),
)
STEPS = (RUN_NOW, RESCHEDULE, REQUEUE, PAUSE, RESUME, CANCEL)

CANCELLED_WHILE_IT_RUNS = _("Task %(task)s is running, and is gone when this run ends.")
DELETED_TWICE = _("It is being cancelled already, and is gone when its run ends.")
MOVED = _(
    "Task %(task)s has been changed, or has run, since you opened its page. Nothing was done: see "
    "what it is now."
)
GONE = _("Task %(task)s has ended, or has been cancelled, meanwhile. Nothing was done.")
_ENDS_A_SCHEDULE = _("It repeats: its schedule ends with it.")
_COMES_BACK = _(
    "It is the row of its handler's schedule: the next worker that starts adds it again."
)


ANEW = _(
    "It begins again from the start, with all its attempts: its failed attempts and its last "
    "error are cleared, and it is meant for the time that is saved."
)


def begins_anew(task: Task) -> bool:
    """Tell if saving clears something. What belongs to a run under way stays."""
    return task.status not in OWNED and bool(task.attempts or task.rescues or task.last_error)


def cancel_means(task: Task) -> list[Any]:
    """Sentences about what a cancel, or a deletion, does to a task."""
    said = [CANCEL.means.get(Status(task.status), DELETED_TWICE)]
    if task.schedule:
        said.append(_COMES_BACK if is_schedule_num(task.biz_num) else _ENDS_A_SCHEDULE)
    return said


class SeenRow(NamedTuple):
    """The version and the status of a row, as somebody has seen them on a page.

    Both: of a row that runs, a pause changes the status alone.
    """

    version: int
    status: int

    def __str__(self) -> str:
        return f"{self.version}.{self.status:d}"


def seen_of(task: Task) -> str:
    """The facts of a row that a page remembers."""
    return str(SeenRow(task.version, task.status))


@retried
def guarded(pk: int, seen: str, act: Callable[[], object], *, using: str) -> bool:
    """Do something to a task if its row still is as it was seen; returns if it was done.

    The row stays locked from the look to the end. On SQLite the transaction has the only lock.
    """
    with write_transaction(using):
        row = Task._base_manager.using(using).select_for_update().filter(pk=pk)
        now = row.values_list("version", "status").first()
        return now is not None and str(SeenRow(*now)) == seen and bool(act())
