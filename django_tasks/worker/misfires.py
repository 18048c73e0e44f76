"""Times that have passed: the run for the last of them, one that comes too late, the next one."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from django_tasks import logs, signals
from django_tasks.clock import Clock
from django_tasks.exceptions import Misfired, NotHere, TaskException, TaskValueError
from django_tasks.handlers import companions
from django_tasks.handlers.current import CURRENT
from django_tasks.handlers.recurrence import (
    Policy,
    Recurrence,
    by_todays_rules,
    for_latest,
    next_run,
    policy_of,
    run_for,
    schedule_of,
)
from django_tasks.sentences import said
from django_tasks.store.pauses import spans
from django_tasks.values.claimed import Claimed
from django_tasks.values.options import options_of_text
from django_tasks.values.outcomes import Again, Done, Fail
from django_tasks.worker.error_text import class_path, error_text
from django_tasks.worker.run import Run, RunEnd


class UnreadableSchedule(TaskException):
    """The row's schedule or its options say nothing: it is for a person to mend."""


def with_own_terms(run: Run) -> Run:
    """The run of a task whose row has a schedule or options.

    With a schedule it is for the last time that has passed, or before the next one. Raises
    UnreadableSchedule, and NotHere for what another worker may be able to read.
    """
    claimed, handler = run.claimed, run.handler
    try:
        policy = policy_of(handler, options_of_text(claimed.options))
        schedule = schedule_of(claimed, handler) if claimed.schedule is not None else None
    except NotHere:
        raise
    except TaskValueError as error:
        raise UnreadableSchedule(said(error)) from error
    run = run._replace(own=policy)
    return run if schedule is None else _for_latest(run, Recurrence(schedule, policy))


def _for_latest(run: Run, recurrence: Recurrence) -> Run:
    now, claimed = run.started.utc, run.claimed
    run = run._replace(recurrence=recurrence)
    if _is_before_its_time(claimed):
        planned = claimed.intended_time
        return _with(run, claimed._replace(scheduled_time=None, planned=planned))
    today = by_todays_rules(claimed, recurrence.schedule)
    if today is not None and today > claimed.intended_time:
        claimed = claimed._replace(scheduled_time=today)
        run = _with(run, claimed)
        if _is_before_its_time(claimed):
            return run
    latest = for_latest(claimed, recurrence, now)
    if latest is claimed:
        return run
    run = _with(run, latest)
    return run.having_missed("coalesce", run.lateness(now))


def _is_before_its_time(claimed: Claimed) -> bool:
    """Tell if a claim was made before the time that it is meant for.

    By the claim's moment, and not by the time at its start: the clock may have been set back a
    little in between, and a run that is in time must not count as one more.
    """
    return claimed.intended_time > claimed.claim_time


def _with(run: Run, claimed: Claimed) -> Run:
    task = run.task.made_again(claimed)
    CURRENT.set(task)  # until the end of the run: its start has set the other one
    return run._replace(claimed=claimed, task=task)


def not_yet(run: Run) -> Again | None:
    """The end of a run whose time has not come, by the rules that its zone has today."""
    claimed = run.claimed
    # Since the claim, too: the last time that has passed is not before its time.
    has_come = claimed.intended_time <= max(claimed.claim_time, run.started.utc)
    if run.recurrence is None or claimed.planned or has_come:
        return None
    later = run_for(claimed.intended_time, run.recurrence.schedule)
    logs.zone_changed(claimed.biz_code, claimed.biz_num, later.when, run.using)
    return Again(later.when, scheduled_time=claimed.intended_time)


def in_time(run: Run, clock: Clock) -> Run | RunEnd:
    """The run if it is to start; its end if it would start too late.

    Database errors pass.
    """
    if run.own is None and run.handler.misfire_grace_time is None:
        return run
    now, policy = run.started.utc, run.policy
    if policy.expires is not None and now > policy.expires:
        return _expired(run, policy, now)
    grace, late = policy.grace, run.lateness(now)
    if grace is None or late <= grace or run.claimed.attempts or run.claimed.rescues:
        return run  # in time, or not the first time that it is to run
    late = (now - _waited_until(run, grace, now)).total_seconds()
    if late <= grace:
        return run  # it was paused
    action = policy.on_misfire or _usual(run)
    run = run.having_missed(action, late)
    if action == "run":
        return run
    if action == "skip":
        return following(run, clock, counts_as="skipped") or (run, Done(counts_as="skipped"))
    reason = f"It would have started {late:.0f} s late; its misfire_grace_time is {grace:g} s."
    return parked(run, Misfired(reason))


def _waited_until(run: Run, grace: float, now: datetime) -> datetime:
    """The time since which a run is late: when it was due, or the end of the pause that held it.

    A pause that began when it was late already is no excuse.
    """
    waited = max(run.claimed.when, run.claimed.intended_time)
    for since, ended in spans(run.claimed.queue, run.claimed.biz_code, waited, using=run.using):
        if (since - waited).total_seconds() <= grace:
            waited = max(waited, ended or now)
    return waited


def _usual(run: Run) -> Literal["skip", "fail"]:
    return "skip" if run.recurrence else "fail"


def _expired(run: Run, policy: Policy, now: datetime) -> RunEnd:
    action = policy.on_misfire if policy.on_misfire in ("skip", "fail") else _usual(run)
    run = run.having_missed(action, run.lateness(now))
    if action == "skip":
        return run, Done(counts_as="skipped")
    before = f" Before that: {run.claimed.last_error}" if run.claimed.last_error else ""
    reason = f"It would have started after it expired, {policy.expires}.{before}"
    return parked(run, Misfired(reason))


def parked(run: Run, error: TaskException) -> RunEnd:
    """The end of a run as FAILED without calling its handler."""
    companions.tell_of_failure(run.task, error, is_final=True)
    run.tell(signals.task_failed, seconds=0.0, exception=error)
    return run, Fail(error_text(error), class_path(error))


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
        run = run.having_missed(found.left_out, run.lateness(now))
    return run, replace(found.run, **facts)
