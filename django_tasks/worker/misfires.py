"""Times that have passed: the run for the last of them, one that comes too late, the next one."""

from dataclasses import replace
from typing import Any

from django_tasks import signals
from django_tasks.clock import Clock
from django_tasks.exceptions import Misfired, TaskException, TaskValueError
from django_tasks.handlers.recurrence import for_latest, next_run, recurrence_of
from django_tasks.handlers.running_task import RunningTask
from django_tasks.store.claimed_rows import is_cancelled
from django_tasks.values.outcomes import Done, Fail
from django_tasks.worker.error_text import error_text
from django_tasks.worker.run import Run, RunEnd


class UnreadableSchedule(TaskException):
    """The row's schedule says nothing: it is for a person to mend."""


def with_schedule(run: Run) -> Run:
    """The run of a task that has a schedule: it is for the last time that has passed.

    Raises UnreadableSchedule and UnknownTrigger.
    """
    try:
        recurrence = recurrence_of(run.claimed, run.handler)
    except TaskValueError as error:
        raise UnreadableSchedule(str(error)) from error
    now = run.started.utc
    claimed = for_latest(run.claimed, recurrence, now)
    if claimed is not run.claimed:
        task = RunningTask(claimed, run.using, run.started, is_cancelled)
        run = run._replace(claimed=claimed, task=task).having_missed("coalesce", now)
    return run._replace(recurrence=recurrence)


def in_time(run: Run, clock: Clock) -> Run | RunEnd:
    """The run if it is to start; its end if it would start too late."""
    if run.recurrence is None and run.handler.misfire_grace_time is None:
        return run
    now, policy = run.started.utc, run.policy
    grace, late = policy.grace, run.lateness(now)
    if grace is None or late <= grace or run.claimed.attempts or run.claimed.rescues:
        return run  # in time, or not the first time that it is to run
    action = policy.on_misfire or ("skip" if run.recurrence else "fail")
    run = run.having_missed(action, now)
    if action == "run":
        return run
    if action == "skip":
        return following(run, clock, counts_as="skipped") or (run, Done(counts_as="skipped"))
    reason = f"It would have started {late:.0f} s late; its misfire_grace_time is {grace:g} s."
    return parked(run, Misfired(reason))


def parked(run: Run, error: TaskException) -> RunEnd:
    """The end of a run as FAILED without calling its handler."""
    run.tell(signals.task_failed, seconds=0.0, exception=error)
    return run, Fail(error_text(error))


def following(run: Run, clock: Clock, **facts: Any) -> RunEnd | None:
    """The end of a run that goes on by its schedule; None if it has none, or if that is over.

    ``facts`` are those of its outcome, a Reschedule.
    """
    if run.recurrence is None:
        return None
    now = clock.now()
    found = next_run(run.claimed, run.recurrence, now)
    if found is None:
        return None
    if found.left_out:
        run = run.having_missed(found.left_out, now)
    return run, replace(found.run, **facts)
