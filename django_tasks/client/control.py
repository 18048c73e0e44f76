"""Cancel, change, move, pause, resume and requeue a task. See ``django_tasks.api``."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_tasks import payloads, signals
from django_tasks.client.adding import FACTS, OPTIONS
from django_tasks.client.arguments import (
    Key,
    Match,
    Number,
    When,
    check_names,
    check_queue,
    checked_key,
    checked_match,
    checked_moment,
    checked_options,
    checked_schedule,
)
from django_tasks.client.changes import VERBS, Step, lines_at
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task
from django_tasks.sentences import sentence as _
from django_tasks.store import clock, control
from django_tasks.store.aliases import write_alias
from django_tasks.store.control import CancelResult
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.keys import check_name, check_priority
from django_tasks.values.options import TaskOptions
from django_tasks.wakeup.wake import LONG_AGO, wake_workers

if TYPE_CHECKING:
    from typing import Unpack

    from django_tasks.client.adding import Facts


def cancel_task(biz_code: str, biz_num: Number, *, using: str | None = None) -> CancelResult:
    """Cancel the task of a key.

    CANCELLED: it was waiting, its row is gone and it will not start. CANCELLING: it is running;
    its handler sees ``task.cancel_requested``, and whatever it returns it will not run again.
    NOT_FOUND, which is false while the others are true: there is no such task. Atomic, and part of
    the caller's transaction.
    """
    alias = write_alias(using)
    key, now = checked_key(biz_code, biz_num), clock.now(alias)
    done = control.cancel(key.matching, now, using=alias, line_of=lines_at(now, key.biz_code))
    result = CancelResult.NOT_FOUND
    if done.gone or done.going:
        result = CancelResult.CANCELLED if done.gone else CancelResult.CANCELLING
        signals.task_cancelled.send_robust(Task, **key._asdict(), result=result, using=alias)
    return result


def delete_tasks(
    biz_code: str,
    biz_num: Number,
    *,
    match: Match = "contains",
    dry_run: bool = False,
    using: str | None = None,
) -> int:
    """Cancel all tasks of ``biz_code`` whose number contains ``biz_num``; returns how many.

    The comparison is literal and case-sensitive on every database; ``match`` may be "exact" or
    "prefix" instead. A number that is no text goes with "exact" only: 1 is in 10 as well. An empty
    ``biz_num`` is refused, for it would match everything, unless that is said:
    ``delete_tasks(code, "", match="all")``. Waiting tasks are deleted, running ones are
    cancelled as ``cancel_task`` does. ``dry_run`` only counts. Atomic.
    """
    alias = write_alias(using)
    matching = checked_match(biz_code, biz_num, match)
    if dry_run:
        return Task._base_manager.using(alias).filter(matching).count()
    now = clock.now(alias)
    lines = lines_at(now, biz_code)
    if count := sum(control.in_order(matching, control.cancel, now, using=alias, line_of=lines)):
        facts = {"biz_code": biz_code, "biz_num": str(biz_num), "match": match, "count": count}
        signals.tasks_cancelled.send_robust(Task, **facts, using=alias)
    return count


def update_task(
    biz_code: str, biz_num: Number, *, using: str | None = None, **facts: "Unpack[Facts]"
) -> bool:
    """Change what is named of the task of a key, and nothing else; False if there is none.

    ``biz_ext``, ``queue``, ``priority``, ``name`` and options: the task keeps its time, its status
    and its attempts; a None is the handler's again. While it runs, this run goes on as it began and
    ends as it would; a payload that is written meanwhile stands, whatever the handler returns.

    ``when`` and ``schedule`` move it, as ``reschedule_task`` does: a FAILED one waits again, a
    running one runs again then. A schedule without ``when`` begins with its first time; one that
    the task has already moves nothing. With ``schedule=None`` it runs once more, at the ``when``
    that must be given. The values are those of ``add_task``. Atomic, and part of the caller's
    transaction. Raises TaskTypeError or TaskValueError before anything is written.
    """
    alias = write_alias(using)
    key = checked_key(biz_code, biz_num)
    check_names("update_task", dict(facts), FACTS)
    if is_schedule_num(key.biz_num) and facts.keys() & {"schedule", "queue", "priority"}:
        raise TaskValueError(
            "biz_num", key.biz_num, _("is planned by its handler: change it there")
        )
    when, columns, options = _changes(key, dict(facts), alias)
    is_first = "schedule" in columns and "when" not in facts
    now = clock.now(alias)
    change = partial(control.change, key.matching, columns, options, when, now)
    if not change(is_first=is_first, using=alias):
        return False
    return _changed(1, "updated", key, alias, when)


def _changes(key: Key, facts: dict[str, Any], using: str) -> tuple[datetime | None, Any, Any]:
    given = {name: facts.pop(name) for name in OPTIONS & facts.keys()}
    when = checked_moment("when", facts.pop("when"), using) if "when" in facts else None
    if "schedule" in facts:
        plan, first = None, None
        if facts["schedule"] is not None:
            plan, first = checked_schedule(facts["schedule"], using)
            given = {**plan.options.given(), **given}
        when = when or first
        if when is None:
            raise TaskTypeError(
                "when", None, _("is missing: without its schedule a task needs one")
            )
        facts["schedule"] = plan and str(plan.schedule)
    # Bad ones are refused whether there is such a task or not.
    options = checked_options(TaskOptions(**given), when, using)
    if options.expires is not None:
        given["expires"] = options.expires
    merging = (lambda there: TaskOptions(**{**there.given(), **given})) if given else None
    return when, _columns(key, facts), merging


def _columns(key: Key, facts: dict[str, Any]) -> dict[str, Any]:
    handler: Any = handler_for(key.biz_code) or TaskHandler
    if "biz_ext" in facts:
        facts["biz_ext"] = payloads.encoded(facts["biz_ext"])
    if "queue" in facts:
        facts["queue"] = check_queue(facts["queue"] or handler.queue)
    if "priority" in facts:
        own = facts["priority"]
        facts["priority"] = check_priority(handler.priority if own is None else own)
    if "name" in facts:
        facts["name"] = check_name(facts["name"])
    return facts


def reschedule_task(
    biz_code: str, biz_num: Number, when: When, *, using: str | None = None
) -> bool:
    """Move the task of a key to another time, payload kept; False if there is none.

    ``when`` is a datetime, naive in the current time zone, or a timedelta from now. As ``add_task``
    does: a FAILED one waits again, a running one runs again then, one that is being cancelled lives
    on. A paused one stays paused. Atomic.
    """
    alias = write_alias(using)
    key, moment = checked_key(biz_code, biz_num), checked_moment("when", when, alias)
    done = control.reschedule(key.matching, moment, clock.now(alias), using=alias)
    return _changed(done, "rescheduled", key, alias, moment)


def run_task_now(biz_code: str, biz_num: Number, *, using: str | None = None) -> bool:
    """Make the task of a key due now, paused and FAILED ones too; False if there is none."""
    return _take(Step.RUN_NOW, biz_code, biz_num, using)


def pause_task(biz_code: str, biz_num: Number, *, using: str | None = None) -> bool:
    """Pause the task of a key: it will not start until resumed. A running one ends its run first.

    False if that changed nothing: there is none, or it is paused, FAILED or being cancelled.
    """
    return _take(Step.PAUSE, biz_code, biz_num, using)


def resume_task(biz_code: str, biz_num: Number, *, using: str | None = None) -> bool:
    """Undo ``pause_task``; False if that changed nothing.

    One whose time has passed is due now, and keeps its ``scheduled_time``.
    """
    return _take(Step.RESUME, biz_code, biz_num, using)


def requeue_task(biz_code: str, biz_num: Number, *, using: str | None = None) -> bool:
    """Give a FAILED task a fresh start, due now; False if there is no FAILED task of that key."""
    return _take(Step.REQUEUE, biz_code, biz_num, using)


acancel_task = sync_to_async(cancel_task)
adelete_tasks = sync_to_async(delete_tasks)
aupdate_task = sync_to_async(update_task)
areschedule_task = sync_to_async(reschedule_task)
arun_task_now = sync_to_async(run_task_now)
apause_task = sync_to_async(pause_task)
aresume_task = sync_to_async(resume_task)
arequeue_task = sync_to_async(requeue_task)


def _take(step: Step, biz_code: str, biz_num: Number, using: str | None) -> bool:
    alias, key = write_alias(using), checked_key(biz_code, biz_num)
    now, verb = clock.now(alias), VERBS[step]
    done = verb.change(key.matching, now, using=alias)
    since = LONG_AGO if step is Step.RESUME else now  # it keeps its time, which may be long past
    return _changed(done, verb.said, key, alias, since if verb.is_due else None)


def _changed(count: int, change: str, key: Key, using: str, when: datetime | None = None) -> bool:
    if not count:
        return False
    signals.task_changed.send_robust(Task, **key._asdict(), change=change, using=using)
    if when is not None:
        wake_workers(when, using)
    return True
