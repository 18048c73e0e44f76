"""Cancel, move, pause, resume and requeue a task. See ``django_tasks.api``."""

from datetime import datetime

from asgiref.sync import sync_to_async

from django_tasks import signals
from django_tasks.client.arguments import Match, checked_key, checked_match
from django_tasks.models import Task
from django_tasks.store import clock, control
from django_tasks.store.aliases import write_alias
from django_tasks.store.control import CancelResult
from django_tasks.timezones import aware
from django_tasks.wakeup.wake import LONG_AGO, wake_workers


def cancel_task(biz_code: str, biz_num: str, *, using: str | None = None) -> CancelResult:
    """Cancel the task of a key.

    CANCELLED: it was waiting, its row is gone and it will not start. CANCELLING: it is running;
    its handler sees ``task.cancel_requested``, and whatever it returns it will not run again.
    NOT_FOUND, which is false while the others are true: there is no such task. Atomic, and part of
    the caller's transaction.
    """
    alias = write_alias(using)
    matching = checked_key(biz_code, biz_num)
    done = control.cancel(matching, clock.now(alias), using=alias)
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
    done = control.cancel(matching, clock.now(alias), using=alias)
    if count := sum(done):
        facts = {"biz_code": biz_code, "biz_num": biz_num, "match": match, "count": count}
        signals.tasks_cancelled.send_robust(Task, **facts, using=alias)
    return count


def reschedule_task(
    biz_code: str, biz_num: str, when: datetime, *, using: str | None = None
) -> bool:
    """Move the task of a key to another time, payload kept; False if there is none.

    As ``add_task`` does: a FAILED one waits again, a running one runs again then, one that is
    being cancelled lives on. A paused one stays paused. Atomic.
    """
    alias = write_alias(using)
    moment = aware("when", when)
    done = control.reschedule(checked_key(biz_code, biz_num), moment, clock.now(alias), using=alias)
    return _changed(done, "rescheduled", biz_code, biz_num, alias, moment)


def run_task_now(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Make the task of a key due now, paused and FAILED ones too; False if there is none."""
    alias = write_alias(using)
    moment = clock.now(alias)
    done = control.run_now(checked_key(biz_code, biz_num), moment, using=alias)
    return _changed(done, "due now", biz_code, biz_num, alias, moment)


def pause_task(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Pause the task of a key: it will not start until resumed. A running one ends its run first.

    False if that changed nothing: there is none, or it is paused, FAILED or being cancelled.
    """
    alias = write_alias(using)
    done = control.pause(checked_key(biz_code, biz_num), clock.now(alias), using=alias)
    return _changed(done, "paused", biz_code, biz_num, alias)


def resume_task(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Undo ``pause_task``; False if that changed nothing."""
    alias = write_alias(using)
    done = control.resume(checked_key(biz_code, biz_num), clock.now(alias), using=alias)
    return _changed(done, "resumed", biz_code, biz_num, alias, LONG_AGO)


def requeue_task(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Give a FAILED task a fresh start, due now; False if there is no FAILED task of that key."""
    alias = write_alias(using)
    moment = clock.now(alias)
    done = control.requeue(checked_key(biz_code, biz_num), moment, using=alias)
    return _changed(done, "requeued", biz_code, biz_num, alias, moment)


acancel_task = sync_to_async(cancel_task)
adelete_tasks = sync_to_async(delete_tasks)
areschedule_task = sync_to_async(reschedule_task)
arun_task_now = sync_to_async(run_task_now)
apause_task = sync_to_async(pause_task)
aresume_task = sync_to_async(resume_task)
arequeue_task = sync_to_async(requeue_task)


def _changed(
    count: int,
    change: str,
    biz_code: str,
    biz_num: str,
    using: str,
    when: datetime | None = None,
) -> bool:
    """Tell if a task was changed. If so, receivers hear of it; workers, if it may be due."""
    if not count:
        return False
    signals.task_changed.send_robust(
        Task, biz_code=biz_code, biz_num=biz_num, change=change, using=using
    )
    if when is not None:
        wake_workers(when, using)
    return True
