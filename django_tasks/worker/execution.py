"""One run of one task: from a claim to its outcome. Nothing raises past it."""

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from inspect import iscoroutine
from threading import Event, Lock
from typing import Any, NamedTuple, Protocol

from django.db import (
    Error,
    InterfaceError,
    InternalError,
    OperationalError,
    connections,
    transaction,
)

from django_tasks import logs, sensitive, signals
from django_tasks.backoff import Exponential, seconds
from django_tasks.claimed import Claimed
from django_tasks.clock import Clock, Tick
from django_tasks.conf import options
from django_tasks.exceptions import (
    ClaimLost,
    Misfired,
    RetryLater,
    TaskException,
    TaskTypeError,
    TaskValueError,
)
from django_tasks.handlers import (
    Stop,
    TaskHandler,
    history_of,
    may_retry,
    retry_delay,
    time_limit,
)
from django_tasks.history import keeps, line_of
from django_tasks.hostclock import ticks
from django_tasks.outcomes import (
    DONE,
    Again,
    Done,
    Fail,
    GiveBack,
    Lost,
    Outcome,
    Reschedule,
    Retry,
    Settled,
    Unsettled,
)
from django_tasks.plans import Policy
from django_tasks.recurrence import (
    Recurrence,
    UnknownTrigger,
    attempts_of,
    for_latest,
    next_run,
    policy_of,
    recurrence_of,
)
from django_tasks.registry import handler_for, terms_for
from django_tasks.running import RunningTask
from django_tasks.store.errors import Kind, kind_of
from django_tasks.store.finish import Ended, await_claim, finish_inside, is_cancelled, is_ours
from django_tasks.store.transactions import write_transaction
from django_tasks.times import aware
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.isolation import NoProcess, NotRun, ProcessDied, run_apart
from django_tasks.worker.suspects import is_suspect

# The longest error text that a row keeps; the end of a traceback says most.
ERROR_LENGTH = 10_000
LONGEST_DELAY = timedelta(days=3650)
AFTER_DEFECT = timedelta(minutes=1)
# After an end that the database refused; doubled each time. So many in a row are an attempt.
AFTER_REFUSAL = timedelta(seconds=1)
LONGEST_AFTER_REFUSAL = timedelta(seconds=60)
MOST_REFUSALS = 10
# Claims are sent a few milliseconds ahead. More than this is a clock that was set back.
LONGEST_WAIT = 0.05
CRASHED = "The run ended its thread, by an exception that could not be handled."

# How a handler can end well, and how its failure goes on.
Good = Done | Reschedule
Bad = Retry | Fail | Reschedule


class Run(NamedTuple):
    """Facts that all steps of a run share. ``missed``: what was done about times that passed."""

    claimed: Claimed
    handler: TaskHandler
    task: RunningTask
    started: Tick
    missed: list[str]
    recurrence: Recurrence | None = None

    @property
    def policy(self) -> Policy:
        """The policy of its row, and of its handler where the row has none."""
        return self.recurrence.policy if self.recurrence else policy_of(self.handler)


class Standing(Protocol):
    """The side of a worker that a run asks: its id, its lease and its clock."""

    @property
    def worker_id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    def is_valid(self) -> bool: ...


class NotBegun(Exception):
    """The transaction of an ``atomic`` run could not begin; its handler was not called."""


class Unanswered(Exception):
    """The database refused the end of an ``atomic`` run, or did not answer: a deadlock, a failed
    certification, a broken connection. The handler has done nothing wrong.
    """


class UnreadableSchedule(TaskException):
    """The row's schedule says nothing: it is for a person to mend."""


class Refusals:
    """Counts of refusals in a row of the end of an ``atomic`` run, by row. For all threads."""

    CAPACITY = 1000

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[int, int] = {}

    def note(self, row_id: int) -> int:
        """Count one more; returns how many."""
        with self._lock:
            count = self._counts.pop(row_id, 0) + 1
            if len(self._counts) >= self.CAPACITY:
                self._counts.pop(next(iter(self._counts)))  # the oldest
            self._counts[row_id] = count
            return count

    def forget(self, row_id: int) -> None:
        if self._counts:
            with self._lock:
                self._counts.pop(row_id, None)


class Runner:
    """Runs claims with their handlers. Called by all executor threads at once."""

    def __init__(self, using: str, membership: Standing, loop: EventLoop) -> None:
        self._using = using
        self._membership = membership
        self._loop = loop
        self._refusals = Refusals()
        # The last moment of a claim that is known to have come. A race costs one more look.
        self._due: datetime | None = None

    def __call__(self, claimed: Claimed) -> Ended:
        """Run a claim, unless this worker has lost its lease: then it is given back unstarted."""
        handler = handler_for(claimed.biz_code)
        if handler is None or not self._is_due(claimed) or not self._may_start(claimed):
            return Ended(claimed, GiveBack())
        if is_suspect(claimed):
            if ended := self._run_apart(claimed, handler):
                return ended
            if not self._may_start(claimed):  # to find out that there is no process takes a while
                return Ended(claimed, GiveBack())
        return self.run(claimed, handler)

    def run(self, claimed: Claimed, handler: TaskHandler) -> Ended:
        """Run a claim here."""
        started = self._membership.clock.tick()
        task = RunningTask(claimed, self._using, started, is_cancelled)
        run = Run(claimed, handler, task, started, [])
        try:
            if claimed.schedule is not None:
                run = self._with_schedule(run)
            outcome = self._misfire(run) or self._run(run)
        except UnreadableSchedule as error:
            outcome = self._parked(run, error)
        except UnknownTrigger:
            logs.unknown_trigger(claimed)
            outcome = Again(self._membership.clock.now() + AFTER_DEFECT)
        except BaseException as error:  # noqa: BLE001 - a defect of ours must not end the thread
            logs.run_failed(claimed)
            outcome = self._after_defect(claimed, error_text(error))
        return self._ended(run, outcome)

    def crashed(self, claimed: Claimed) -> Ended:
        """The end of a run that let an exception through, or whose thread has died."""
        outcome = self._after_defect(claimed, CRASHED)
        if not keeps(terms_for(claimed.biz_code).kept, outcome, ""):
            return Ended(claimed, outcome)
        now, worker = self._membership.clock.now(), self._membership.name
        # Its start is not known any more: that of its claim is as good.
        line = line_of(claimed, outcome, claimed.claim_time, now, worker=worker, missed="")
        return Ended(claimed, outcome, line=line)

    def _after_defect(self, claimed: Claimed, text: str) -> Retry | Fail:
        allowed = attempts_of(claimed.schedule, terms_for(claimed.biz_code).max_attempts)
        if claimed.attempts + 1 >= allowed:
            return Fail(text)
        return Retry(self._membership.clock.now() + AFTER_DEFECT, text)

    def _is_due(self, claimed: Claimed) -> bool:
        """Wait for the moment as of which a claim was made, if it was made a little ahead.

        Here and not in the poller: nothing else waits with this thread. False if that moment does
        not come: the database's clock was set back.
        """
        moment = claimed.claim_time
        if moment is self._due:  # all claims of a batch share it
            return True
        clock, waited = self._membership.clock, 0.0
        while (seconds := clock.seconds_to(moment)) > 0:
            if waited + seconds > LONGEST_WAIT:
                return False
            # An Event and not sleep(), which raises under some false clocks.
            Event().wait(seconds)
            waited += seconds
        self._due = moment
        return True

    def _run_apart(self, claimed: Claimed, handler: TaskHandler) -> Ended | None:
        """Run a suspect in a process of its own; None where there can be none."""
        worker, started = self._membership, self._membership.clock.tick()
        try:
            return run_apart(
                claimed,
                worker.worker_id,
                worker.name,
                partial(self._may_start, claimed),
                using=self._using,
            )
        except NoProcess as error:
            logs.not_isolated(claimed, error)
            return None
        except NotRun:
            # Later, and not here: a server without a free connection is no reason to run it beside
            # others.
            return Ended(claimed, Again(worker.clock.now() + AFTER_DEFECT))
        except ProcessDied as error:
            task = RunningTask(claimed, self._using, started, is_cancelled)
            run = Run(claimed, handler, task, started, [])
            with suppress(TaskException):
                run = self._with_schedule(run) if claimed.schedule else run
            return self._ended(run, self._after_death(run, error))

    def _after_death(self, run: Run, death: ProcessDied) -> Outcome:
        """The outcome of a run whose own process died: a failed attempt, or an end that is written.

        Race: it died between the commit of an ``atomic`` run and its answer.
        """
        duration = ticks() - run.started.monotonic
        try:
            if run.handler.atomic and not is_ours(run.claimed, using=self._using):
                logs.died_after_its_end(run.task, death)
                return Settled()
        except Error as error:
            return self._unsettled(run, error, duration)
        outcome = self._failed(run, death, duration)
        return replace(outcome, is_suspect=True) if isinstance(outcome, Retry) else outcome

    def _ended(self, run: Run, outcome: Outcome) -> Ended:
        """The end of a run, with its line if the history is to keep one."""
        missed = ", ".join(run.missed) if run.missed else ""
        if not keeps(history_of(run.handler), outcome, missed):
            return Ended(run.claimed, outcome, missed)
        now, worker = self._membership.clock.now(), self._membership.name
        started = run.started.utc
        line = line_of(run.claimed, outcome, started, now, worker=worker, missed=missed)
        return Ended(run.claimed, outcome, missed, line)

    def _with_schedule(self, run: Run) -> Run:
        """The run of a task that has a schedule: it is for the last time that has passed."""
        try:
            recurrence = recurrence_of(run.claimed, run.handler)
        except TaskValueError as error:
            raise UnreadableSchedule(str(error)) from error
        claimed = for_latest(run.claimed, recurrence, run.started.utc)
        if claimed is not run.claimed:
            task = RunningTask(claimed, self._using, run.started, is_cancelled)
            run = run._replace(claimed=claimed, task=task)
            self._missed(run, run.started.utc, "coalesce")
        return run._replace(recurrence=recurrence)

    def _misfire(self, run: Run) -> Outcome | None:
        """The outcome of a run that would start too late; None if it is to start."""
        if run.recurrence is None and run.handler.misfire_grace_time is None:
            return None
        policy = run.policy
        grace, late = policy.grace, _lateness(run.claimed, run.started.utc)
        if grace is None or late <= grace or run.claimed.attempts or run.claimed.rescues:
            return None  # in time, or not the first time that it is to run
        action = policy.on_misfire or ("skip" if run.recurrence else "fail")
        self._missed(run, run.started.utc, action)
        if action == "run":
            return None
        if action == "skip":
            return self._next(run, counts_as="skipped") or Done(counts_as="skipped")
        reason = f"It would have started {late:.0f} s late; its misfire_grace_time is {grace:g} s."
        return self._parked(run, Misfired(reason))

    def _missed(self, run: Run, now: datetime, action: str) -> None:
        late = _lateness(run.claimed, now)
        logs.missed(run.task, late, action)
        run.missed.append(action)
        self._tell(signals.task_missed, run, lateness=late, action=action)

    def _parked(self, run: Run, error: TaskException) -> Fail:
        """Not to be run as it is."""
        self._tell(signals.task_failed, run, seconds=0.0, exception=error)
        return Fail(error_text(error))

    def _next(self, run: Run, **facts: Any) -> Reschedule | None:
        """The next time by the schedule, if there is one and it is not over."""
        if run.recurrence is None:
            return None
        now = self._membership.clock.now()
        following = next_run(run.claimed, run.recurrence, now)
        if following is None:
            return None
        if following.left_out:
            self._missed(run, now, following.left_out)
        return replace(following.run, **facts)

    def _may_start(self, claimed: Claimed) -> bool:
        """Tell if the claim is this worker's: not of a life before, nor past its lease.

        In this order. Race: the worker joins again between the two questions. It is another one
        before its new lease begins, so a lease that is good was not that of a later life.
        """
        return self._membership.is_valid() and claimed.worker_id == self._membership.worker_id

    def _run(self, run: Run) -> Outcome:
        self._tell(signals.task_started, run)
        started = ticks()
        try:
            good = self._atomically(run) if run.handler.atomic else self._perform(run)
        except ClaimLost:
            return Lost()
        except NotBegun:
            return self._again()
        except Unanswered as error:
            return self._unsettled(run, error.__cause__ or error, ticks() - started)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome
            return self._failed(run, error, ticks() - started)
        self._succeeded(run, good, ticks() - started)
        if not run.handler.atomic:
            return good
        self._refusals.forget(run.claimed.id)
        return Settled()

    def _again(self) -> Again:
        # Not at once: a server that refuses this thread and serves the poller would be asked, and
        # would refuse, a thousand times a second.
        return Again(self._membership.clock.now() + AFTER_REFUSAL)

    def _unsettled(self, run: Run, error: BaseException, duration: float) -> Unsettled:
        """The database has refused the end, or has not answered: again, and later each time.

        A refusal that is for good, such as a quota, is a failed attempt once it has come often.
        """
        drop_connections()
        refusals = self._refusals.note(run.claimed.id)
        if refusals < MOST_REFUSALS:
            logs.not_settled(run.task, error)
            delay = min(AFTER_REFUSAL * 2 ** (refusals - 1), LONGEST_AFTER_REFUSAL)
            return Unsettled(Again(self._membership.clock.now() + delay))
        self._refusals.forget(run.claimed.id)
        bad = self._failed(run, error, duration)
        # A schedule that goes on all the same is no end that may be written twice.
        return Unsettled(bad if isinstance(bad, Retry | Fail) else Fail(bad.error))

    def _perform(self, run: Run) -> Good:
        """Call the handler and understand its answer."""
        answer = run.handler.handle(run.task)
        if iscoroutine(answer):  # not asked of the function: that is slower, and misses wrappers
            if run.handler.atomic:
                answer.close()  # its thread would not be in our transaction
                raise TaskTypeError("handle()", answer, "must be no coroutine where atomic is set")
            answer = self._loop.run(answer, _timeout(run))
        if (answer is None and run.recurrence is None) or _means_stop(answer):
            return DONE
        payload = run.task.changed_payload(options().payload_limit)
        if answer is None:
            return self._next_after_success(run, payload)
        return Reschedule(self._moment("handle()", answer), payload)

    def _next_after_success(self, run: Run, payload: str | None) -> Good:
        """The work is done: an error of the schedule must not have it done again."""
        try:
            return self._next(run, biz_ext=payload) or DONE
        except Exception as error:
            raise UnreadableSchedule(str(error)) from error

    def _moment(self, field: str, answer: Any) -> datetime:
        """A time that a handler gave, as aware UTC."""
        if isinstance(answer, timedelta):
            answer = self._membership.clock.now() + answer
        elif not isinstance(answer, datetime):
            raise TaskTypeError(field, answer, "must return None, a datetime, a timedelta or Stop")
        return aware(field, answer)

    def _atomically(self, run: Run) -> Good:
        """The handler and the end of its run in one transaction on the task's database.

        Race: the row is taken over, moved or cancelled meanwhile. The end is guarded inside the
        transaction; ClaimLost rolls the handler's effects back.
        """
        good: Good | None = None
        steps: list[str] = []
        try:
            await_claim(run.claimed, using=self._using)
            with write_transaction(self._using):
                steps.append("begun")
                # The first hook of the commit: if a later one raises, the end is written already.
                transaction.on_commit(lambda: steps.append("committed"), using=self._using)
                good = self._perform(run)
                now = self._membership.clock.now()
                finish_inside(self._ended(run, good), now, using=self._using)
        except Exception as error:
            if good is not None and "committed" in steps:
                logs.commit_hook_failed(run.task)
                return good
            is_refusal = _is_refusal(error, self._using)
            # A pool of connections, or a socket, may let through what is no error of the database.
            if not steps and (is_refusal or isinstance(error, OSError)):
                raise NotBegun from error
            if good is not None and is_refusal:
                raise Unanswered from error
            raise
        return good

    # What follows from an end

    def _succeeded(self, run: Run, good: Good, duration: float) -> None:
        self._warn_if_slow(run, duration)
        match good:
            case Done():
                logs.succeeded(run.task, duration)
                self._tell(signals.task_succeeded, run, seconds=duration)
            case Reschedule(when):
                logs.rescheduled(run.task, duration, when)
                self._tell(signals.task_rescheduled, run, seconds=duration, when=when)

    def _failed(self, run: Run, error: BaseException, duration: float) -> Bad:
        if isinstance(error, OperationalError | InterfaceError | InternalError):
            drop_connections()
        self._warn_if_slow(run, duration)
        bad = self._after_failure(run, error)
        match bad:
            case Retry(when):
                self._tell(signals.task_retried, run, seconds=duration, when=when, exception=error)
            case Fail() | Reschedule():
                self._on_failure(run, error)
                self._tell(signals.task_failed, run, seconds=duration, exception=error)
        return bad

    def _after_failure(self, run: Run, error: BaseException) -> Bad:
        """Try again, or was that the last attempt? A schedule goes on all the same."""
        attempt = run.claimed.attempts + 1
        is_left = attempt < run.policy.max_attempts
        if is_left and not isinstance(error, UnreadableSchedule) and may_retry(run.handler, error):
            return Retry(self._time_to_retry(run, error, attempt), error_text(error))
        text = error_text(error)
        try:
            return self._next(run, error=text, counts_as="failed") or Fail(text)
        except Exception as defect:  # noqa: BLE001 - a user's trigger may raise anything
            return Fail(error_text(defect))

    def _time_to_retry(self, run: Run, error: BaseException, attempt: int) -> datetime:
        if isinstance(error, RetryLater):
            try:
                return self._moment("RetryLater", error.when)
            except (TaskValueError, OverflowError):
                logs.backoff_failed(run.task)
        return self._membership.clock.now() + _delay(run, attempt)

    def _on_failure(self, run: Run, error: BaseException) -> None:
        try:
            hook: Callable[..., Any] = run.handler.on_failure  # it may be async
            if iscoroutine(answer := hook(run.task, error)):
                self._loop.run(answer, None)
        except BaseException:  # noqa: BLE001 - the hook's failure changes nothing
            logs.hook_failed("on_failure", run.task)

    def _warn_if_slow(self, run: Run, duration: float) -> None:
        limit = _timeout(run)
        if limit is not None and duration > limit:
            logs.took_too_long(run.task, duration, limit)

    def _tell(self, signal: Any, run: Run, **facts: Any) -> None:
        if signal.receivers:  # quicker than has_listeners(), for there are two signals a run
            signals.tell(signal, type(run.handler), task=run.task, using=self._using, **facts)


def _is_refusal(error: Exception, using: str) -> bool:
    """Tell if an error may be the database's and not the handler's.

    Of PostgreSQL's InternalError only a part is: a transaction that has become read-only is, by a
    switchover; one that an error has broken which the handler has caught is not.
    """
    if isinstance(error, InternalError):
        return kind_of(error, using=using) is Kind.WORLD
    return isinstance(error, OperationalError | InterfaceError)


def drop_connections() -> None:
    """Close this thread's connections after an error of a database, whatever a ping would say.

    A former primary that is read-only after a switchover answers each ping, and refuses each write.
    Django itself forgets an error with the rollback that follows it.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            with suppress(Error):
                connection.close()


def error_text(error: BaseException) -> str:
    """The traceback of a handler's error as a row can keep it.

    PostgreSQL cannot store NUL, and nobody lone surrogates: they are replaced, so that the run
    still ends as it should. Passwords are masked: more people read the table than the settings.
    The frames of this module are left out.
    """
    try:
        text = _traceback(error)
    except BaseException:  # noqa: BLE001 - an exception's own methods, which it calls, may raise
        text = f"{type(error).__name__} (its traceback cannot be formatted)"
    text = text.encode("utf-8", "replace").decode().replace("\0", "\\0")
    return sensitive.ending(text, ERROR_LENGTH)


def _traceback(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _timeout(run: Run) -> float | None:
    """As ``run.policy`` says; asked for in every run, and most have no schedule."""
    return run.recurrence.policy.timeout if run.recurrence else time_limit(run.handler)


def _means_stop(answer: Any) -> bool:
    return answer is Stop or isinstance(answer, Stop)


def _lateness(claimed: Claimed, started: datetime) -> float:
    """Seconds; of a run for the last of several missed times, since that time."""
    return (started - max(claimed.when, claimed.intended_time)).total_seconds()


def _delay(run: Run, attempt: int) -> timedelta:
    """The handler's backoff, or the default one if that fails: a task must not be lost over it."""
    try:
        delay = seconds(retry_delay(run.handler, attempt))
    except Exception:  # noqa: BLE001 - a user's backoff may raise anything
        logs.backoff_failed(run.task)
        delay = Exponential().delay(attempt)
    return timedelta(seconds=min(delay, LONGEST_DELAY.total_seconds()))
