"""The next run of a task with a schedule, and the time that it is meant for."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from random import uniform
from typing import Any, NamedTuple, Protocol

from django_tasks.backoff import Backoff, Duration, seconds
from django_tasks.conf import options as settings
from django_tasks.exceptions import NotHere, TaskValueError
from django_tasks.handlers.base import TaskHandler, attempts_allowed, time_limit
from django_tasks.handlers.registry import terms_for
from django_tasks.schedules import Foreign, Schedule, as_schedule, missed
from django_tasks.schedules.accept import stored
from django_tasks.sentences import sentence as _
from django_tasks.values.claimed import Claimed
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.options import NO_OPTIONS, OnMisfire, TaskOptions, options_of_text
from django_tasks.values.outcomes import Reschedule

TRIGGER = "trigger "

# The most by which a change of a zone's rules is taken to move a time: that of a date line is more.
LONGEST_CHANGE = timedelta(hours=3)
# Times in those hours, before and after: a schedule with more of them hardly notices.
FEW_TIMES = 24
TICK = timedelta(microseconds=1)


class UnknownTrigger(NotHere):
    """The schedule of a row is a trigger that this process does not have: another one may."""


class Policy(NamedTuple):
    """Rules for a run that would start late, for several times that were missed, and of runs that
    take long or fail. ``grace`` and ``timeout`` are seconds, ``expires`` is aware UTC.
    """

    grace: float | None
    on_misfire: OnMisfire | None
    coalesce: bool
    catch_up: int | None
    timeout: float | None
    max_attempts: int
    backoff: Backoff | Duration | Sequence[Duration]
    expires: datetime | None = None


class Recurrence(NamedTuple):
    """The schedule of a task, and the policy for times that have passed."""

    schedule: Schedule
    policy: Policy


def schedule_of(claimed: Claimed, handler: TaskHandler) -> Schedule:
    """The schedule that a task's row says.

    Raises TaskValueError if the text cannot be read. A trigger that only the code knows stands in
    the handler.
    """
    text = claimed.schedule or ""
    if not (text.startswith(TRIGGER) and is_schedule_num(claimed.biz_num)):
        return stored(text)
    # Whatever it was in the process that wrote it: ours is the one to ask.
    own = None if handler.schedule is None else as_schedule(handler.schedule)
    if not isinstance(own, Foreign):
        raise UnknownTrigger(text)
    return own


def policy_of(handler: TaskHandler, options: TaskOptions = NO_OPTIONS) -> Policy:
    """The policy of a task: as its own options say, and its handler where they say nothing."""
    grace = handler.misfire_grace_time
    policy = Policy(
        None if grace is None else seconds(grace),
        handler.on_misfire,
        handler.coalesce,
        handler.catch_up,
        time_limit(handler),
        attempts_allowed(handler),
        handler.backoff,
    )
    return policy._replace(**_differences(options)) if options else policy


def _differences(options: TaskOptions) -> dict[str, Any]:
    given = options.given()
    given.pop("release", None)
    if "misfire_grace_time" in given:
        given["grace"] = given.pop("misfire_grace_time")
    # One wish about missed times: without its number, all of them run.
    if "coalesce" in given or "catch_up" in given:
        given |= {"coalesce": bool(options.coalesce), "catch_up": options.catch_up}
    return given


class Allowance(NamedTuple):
    """The seconds that one run of a task may take, and the failed runs that make it FAILED."""

    timeout: float | None
    max_attempts: int


class Row(Protocol):
    """A claim, or the row of a dead worker."""

    @property
    def biz_code(self) -> str: ...

    @property
    def options(self) -> str | None: ...


def allowance_of(row: Row) -> Allowance:
    """The allowance that a row says, or else the terms of its handler, or else the setting.

    It reads nothing of the handler itself, as ``Terms`` says.
    """
    terms, own = terms_for(row.biz_code), _readable(row.options)
    most = terms.max_attempts if own.max_attempts is None else own.max_attempts
    return Allowance(
        terms.timeout if own.timeout is None else seconds(own.timeout),
        settings().max_attempts if most is None else most,
    )


def _readable(text: str | None) -> TaskOptions:
    try:
        return options_of_text(text)
    except TaskValueError:  # its run will say so
        return NO_OPTIONS


def text_of(handler: TaskHandler) -> str | None:
    """The text of a handler's own schedule in a row."""
    return None if handler.schedule is None else str(as_schedule(handler.schedule))


def first_time(schedule: Schedule, now: datetime) -> datetime:
    """The first time of a new task, with jitter. Raises TaskValueError if there is none."""
    first = schedule.next_after(None, now)
    if first is None:
        raise TaskValueError("schedule", str(schedule), _("never fires again"))
    return run_for(first, schedule).when


class Following(NamedTuple):
    """The run after one that ends.

    ``left_out`` says why times between the two are not run: "overrun" (they passed during the run
    that ends), "catch_up" (there are more than ``catch_up`` of them); or "", there are none.
    """

    run: Reschedule
    left_out: str = ""


def next_run(claimed: Claimed, recurrence: Recurrence, now: datetime) -> Following | None:
    """The run after one that ends ``now``; None if it was the last.

    What was missed meanwhile is left out (``coalesce``), or run all the same, the last
    ``catch_up`` times of it.
    """
    schedule, policy = recurrence
    if claimed.planned is not None and claimed.planned > now:
        return Following(run_for(claimed.planned, schedule))
    intended = claimed.planned or claimed.intended_time
    now = max(now, intended)
    # Asked for once: a trigger with a jitter of its own has another answer each time.
    first = schedule.next_after(intended, intended)
    if first is None:
        return None
    if first > now or (not policy.coalesce and policy.catch_up is None):
        if first < claimed.when and not claimed.attempts:
            # It was paused meanwhile: each missed time is due since the row was resumed.
            return Following(Reschedule(claimed.when, scheduled_time=first))
        return Following(run_for(first, schedule))
    # The run that ends was one of those to catch up.
    most = 0 if policy.coalesce else (policy.catch_up or 1) - 1
    passed = _passed(schedule, intended, first, now, most)
    basis = _basis(schedule, intended, first)
    following = passed[0] if passed else schedule.next_after(basis, now)
    if following is None:
        return None
    left_out = "overrun" if policy.coalesce else "catch_up"
    return Following(run_for(following, schedule), left_out if first < following else "")


def chosen(claimed: Claimed, recurrence: Recurrence, when: datetime, now: datetime) -> Reschedule:
    """The run at a time that a handler has answered; after it, its schedule goes on as planned."""
    planned = None
    # A trigger of the project may raise, and the work is done.
    if not _asks_trigger(recurrence.schedule) and (found := next_run(claimed, recurrence, now)):
        planned = found.run.scheduled_time or found.run.when
    is_before = planned is not None and when < planned
    return Reschedule(when, scheduled_time=planned if is_before else when)


class RowTimes(Protocol):
    """A claim, or a row that waits; times are aware UTC."""

    @property
    def when(self) -> datetime: ...

    @property
    def scheduled_time(self) -> datetime | None: ...

    @property
    def attempts(self) -> int: ...

    @property
    def rescues(self) -> int: ...


def by_todays_rules(row: RowTimes, schedule: Schedule) -> datetime | None:
    """The time that a row is meant for, by the rules that zones have today, if that is another one.

    A row keeps an instant. With another tzdata its local time is another one, an hour away as a
    rule. A time that somebody has chosen stays, and so does one that was tried, or has waited.
    """
    when, meant = row.when, row.scheduled_time or row.when
    is_planned = row.scheduled_time is None or meant < when <= meant + schedule.jitter
    if not is_planned or row.attempts or row.rescues or not _goes_by_a_zone(schedule):
        return None
    if schedule.next_after(meant, meant - TICK) == meant or _asks_trigger(schedule):
        return None
    # Of one that counts days, its day may be the one before or after by the rules of today.
    for day_of in (meant, meant - LONGEST_CHANGE, meant + LONGEST_CHANGE):
        if near := _times_near(meant, schedule, day_of):
            return min(near, key=lambda time: (abs(time - meant), time))
    return None


def _times_near(meant: datetime, schedule: Schedule, previous: datetime) -> list[datetime]:
    """The few times that are no further away than rules change; none if there are many."""
    near: list[datetime] = []
    fire = schedule.next_after(previous, meant - LONGEST_CHANGE)
    while fire is not None and fire <= meant + LONGEST_CHANGE and len(near) <= FEW_TIMES:
        near.append(fire)
        fire = schedule.next_after(previous, fire)
    return near if len(near) <= FEW_TIMES else []


def for_latest(claimed: Claimed, recurrence: Recurrence, now: datetime) -> Claimed:
    """A claim as one for the last time that has passed, where missed ones count as one.

    A run that is tried again stays the run of its time.
    """
    if claimed.attempts or not recurrence.policy.coalesce:
        return claimed
    schedule, intended = recurrence.schedule, claimed.intended_time
    first = schedule.next_after(intended, intended)
    if first is None or first > now:
        return claimed
    latest = _passed(schedule, intended, first, now, 1)
    return claimed._replace(scheduled_time=latest[-1]) if latest else claimed


def _passed(
    schedule: Schedule, intended: datetime, first: datetime, now: datetime, most: int
) -> list[datetime]:
    if most <= 0:
        return []
    basis = _basis(schedule, intended, first)
    found = missed(schedule, basis, now, most)
    return found if basis is intended else [first, *found][-most:]


def _basis(schedule: Schedule, intended: datetime, first: datetime) -> datetime:
    """The time from which to go on: ``intended``, or what a trigger said comes ``first`` after it.

    Asked again from ``intended``, a trigger with jitter might say that the same time is still to
    come.
    """
    return first if _asks_trigger(schedule) else intended


def _asks_trigger(schedule: Schedule) -> bool:
    parts: tuple[Schedule, ...] = getattr(schedule, "schedules", ())
    return isinstance(schedule, Foreign) or any(map(_asks_trigger, parts))


def _goes_by_a_zone(schedule: Schedule) -> bool:
    parts: tuple[Schedule, ...] = getattr(schedule, "schedules", ())
    return schedule._zone() not in (None, timezone.utc) or any(map(_goes_by_a_zone, parts))


def run_for(moment: datetime, schedule: Schedule) -> Reschedule:
    """A run for a time of a schedule, with jitter."""
    jitter = schedule.jitter.total_seconds() if schedule.jitter else 0.0
    if not jitter:
        return Reschedule(moment)
    if schedule.end is not None:  # no run is put behind it
        jitter = min(jitter, (schedule.end - moment).total_seconds())
    return Reschedule(moment + timedelta(seconds=uniform(0, jitter)), scheduled_time=moment)
