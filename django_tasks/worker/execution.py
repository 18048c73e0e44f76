"""One run of one task: from a claim to its outcome. Nothing raises past it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from django.db import Error

from django_tasks import logs, signals
from django_tasks.clock import Tick
from django_tasks.exceptions import ClaimLost, NotHere, TaskException, TaskTimeout
from django_tasks.handlers.base import TaskHandler, history_of
from django_tasks.handlers.companions import COMPANIONS, accompanied
from django_tasks.handlers.current import CURRENT, about
from django_tasks.handlers.recurrence import UnknownTrigger, allowance_of
from django_tasks.handlers.registry import handler_for
from django_tasks.handlers.running_task import RunningTask
from django_tasks.host.clocks import pause, ticks
from django_tasks.store import claimed_rows
from django_tasks.store.claimed_rows import is_ours
from django_tasks.store.connection import drop_connections, own_connections
from django_tasks.store.finish import Ended, finish_inside
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import (
    Again,
    Fail,
    GiveBack,
    Lost,
    Retry,
    Settled,
    Unsettled,
    settled,
)
from django_tasks.values.runs import keeps, line_of
from django_tasks.worker.atomic import NotBegun, Unanswered, atomically
from django_tasks.worker.batches import FIRST_DELAY, MOST_REFUSALS, Batches, Refusals, delay_after
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.endings import Endings
from django_tasks.worker.error_text import class_path, error_text
from django_tasks.worker.executor import Item, TakeEnds
from django_tasks.worker.finisher import line_since_claim
from django_tasks.worker.handler_calls import Calls
from django_tasks.worker.isolated.parent import NoProcess, NotRun, ProcessDied, run_apart
from django_tasks.worker.misfires import (
    UnreadableSchedule,
    in_time,
    not_yet,
    parked,
    with_own_terms,
)
from django_tasks.worker.run import Run, RunEnd, Standing, leave
from django_tasks.worker.suspects import is_suspect
from django_tasks.worker.timeouts import Timeouts

AFTER_DEFECT = timedelta(minutes=1)
# Claims are sent a few milliseconds ahead. More than this is a clock that was set back.
LONGEST_WAIT = 0.05
T = TypeVar("T")
CRASHED = "The run ended its thread, by an exception that could not be handled."


class Runner:
    """Runs claims with their handlers. Called by all executor threads at once."""

    def __init__(
        self,
        using: str,
        standing: Standing,
        loop: EventLoop,
        timeouts: Timeouts,
        may_run: Callable[[Claimed], bool] = lambda claimed: True,
        calls: Calls | None = None,
    ) -> None:
        """``may_run`` tells if a claim may run in this worker, and not in another one alone.
        ``calls`` call the handlers; None: in the way of a worker.
        """
        self._may_run = may_run
        self._using = using
        self._standing = standing
        self._name = standing.name
        self._loop = loop
        self._calls = calls or Calls(standing, loop, timeouts)
        self._endings = Endings(standing, loop)
        self._refusals = Refusals(using)
        self._batches = Batches(
            using, standing, self._calls, self._endings, self._refusals, singles=self
        )
        # The last moment of a claim that is known to have come. A race costs one more look.
        self._due: datetime | None = None

    def __call__(self, item: Item, take: TakeEnds | None = None) -> Sequence[Ended]:
        """Run claims, unless this worker has lost its lease: then they are given back unstarted.

        Returns the ends that ``take`` was not given; None: all of them.
        """
        if len(item) == 1:
            return (self._run_claim(item[0]),)
        handler = handler_for(item[0].biz_code)
        # One statement has claimed all of them, so they share their moment and their worker.
        if handler is None or not self._is_due(item[0]) or not self.may_start(item[0]):
            return [Ended(claimed, GiveBack()) for claimed in item]
        started = self._standing.clock.tick()
        runs = [self._begun(claimed, handler, started) for claimed in item]
        if take:
            return self._batches.run(runs, take)
        ends: list[Ended] = []
        last = self._batches.run(runs, ends.extend)
        return ends + last

    def _run_claim(self, claimed: Claimed) -> Ended:
        handler = handler_for(claimed.biz_code)
        if handler is None or not self._is_due(claimed):
            return Ended(claimed, GiveBack())
        started = self._standing.clock.tick()
        if not self.may_start(claimed, started.monotonic):
            return Ended(claimed, GiveBack())
        if is_suspect(claimed):
            if ended := self.run_apart(claimed, handler):
                return ended
            started = self._standing.clock.tick()  # to find out that there is no process takes long
            if not self.may_start(claimed, started.monotonic):
                return Ended(claimed, GiveBack())
        return self.run(claimed, handler, started)

    def run(self, claimed: Claimed, handler: TaskHandler, started: Tick | None = None) -> Ended:
        """Run a claim here. ``started``: the moment at which it was found to be ours; None: now."""
        run = self._begun(claimed, handler, started or self._standing.clock.tick())
        if COMPANIONS:
            return accompanied([run.task], partial(self._to_its_end, run))
        return self._to_its_end(run)

    def _to_its_end(self, run: Run) -> Ended:
        token = CURRENT.set(run.task)
        try:
            try:
                start = self.start_of(run)
                if isinstance(start, Run):
                    start.tell(signals.task_started)
                    end = self.tried(start)
                else:
                    end = start
            except BaseException as error:  # noqa: BLE001 - our defect must not end the thread
                end = self.defect(run, error)
            return self.ended(end)
        finally:
            CURRENT.reset(token)

    def tried_alone(self, run: Run) -> RunEnd:
        """The end of a run of a batch that is called by itself."""
        return self._in_company(run, self.tried)

    def _in_company(self, run: Run, call: Callable[[Run], T]) -> T:
        with about(run.task):
            return accompanied([run.task], partial(call, run)) if COMPANIONS else call(run)

    def start_of(self, run: Run) -> Run | RunEnd:
        """The run that is to start, for the last time of its schedule; its end if it is not to."""
        try:
            if run.claimed.schedule is not None or run.claimed.options is not None:
                run = with_own_terms(run)
                if later := not_yet(run):
                    return run, later
            return in_time(run, self._standing.clock)
        except UnreadableSchedule as error:
            return parked(run, error)
        except NotHere as error:
            if isinstance(error, UnknownTrigger):
                logs.unknown_trigger(run.task)
            else:
                logs.schedule_not_here(run.task, error)
            return run, Again(self._standing.clock.now() + AFTER_DEFECT)
        except Error as error:
            return self._unsettled(run, error, 0.0)
        except Exception as error:  # noqa: BLE001 - one task's defect is not the batch's
            return self.defect(run, error)

    def crashed(self, claimed: Claimed) -> Ended:
        """The end of a run that let an exception through, or whose thread has died."""
        outcome = self._after_defect(claimed, CRASHED)
        now, worker = self._standing.clock.now(), self._standing.name
        line = line_since_claim(claimed, outcome, now, worker=worker)
        return Ended(claimed, outcome, line=line)

    def give_up(
        self, runs: Sequence[Run], error: TaskTimeout, write: Callable[[Sequence[Ended]], None]
    ) -> None:
        """End the runs of a call that does not end, as failed with ``error``.

        From another thread than theirs. ``write`` takes the ends first: hooks and receivers, which
        are told afterwards, may wait for what that thread has.
        """
        own_connections()
        ends = self._endings.give_up(runs, error)
        write([self.ended(end) for end in ends])
        duration = ticks() - runs[0].started.monotonic
        for end in ends:
            self._endings.tell_of_given_up(end, error, duration)

    def _begun(self, claimed: Claimed, handler: TaskHandler, started: Tick) -> Run:
        task = RunningTask(claimed, self._using, started, claimed_rows, self._name)
        return Run(claimed, handler, task, started, self._using)

    def defect(self, run: Run, error: BaseException) -> RunEnd:
        """The end of a run that something of ours has stopped."""
        logs.run_failed(run.task)
        return run, self._after_defect(run.claimed, error_text(error), class_path(error))

    def _after_defect(self, claimed: Claimed, text: str, path: str = "") -> Retry | Fail:
        if claimed.attempts + 1 >= allowance_of(claimed).max_attempts:
            return Fail(text, path)
        return Retry(self._standing.clock.now() + AFTER_DEFECT, text, exception=path)

    def _is_due(self, claimed: Claimed) -> bool:
        """Wait for the moment as of which a claim was made, if it was made a little ahead.

        Here and not in the poller: nothing else waits with this thread. False if that moment does
        not come: the database's clock was set back.
        """
        moment = claimed.claim_time
        if moment is self._due:  # all claims of a batch share it
            return True
        clock, waited = self._standing.clock, 0.0
        while (seconds := clock.seconds_to(moment)) > 0:
            if waited + seconds > LONGEST_WAIT:
                return False
            pause(seconds)
            waited += seconds
        self._due = moment
        return True

    def may_start(self, claimed: Claimed, now: float | None = None) -> bool:
        """Tell if the claim is this worker's: not of a life before, nor past its lease, nor of a
        sticky handler for which another one is active.

        In this order. Race: the worker joins again between the two questions. It takes its new id
        before its new lease begins. So if the new lease made the first answer true, the id of the
        old claim no longer matches.
        """
        standing = self._standing
        is_ours = standing.is_valid(now) and claimed.worker_id == standing.worker_id
        return is_ours and self._may_run(claimed)

    # A process of its own

    def run_apart(self, claimed: Claimed, handler: TaskHandler) -> Ended | None:
        """Run a suspect in a process of its own; None where there can be none."""
        worker = self._standing
        run = self._begun(claimed, handler, worker.clock.tick())
        may_start = partial(self.may_start, claimed)
        try:
            return run_apart(claimed, worker.worker_id, worker.name, may_start, using=self._using)
        except NoProcess as error:
            logs.not_isolated(run.task, error)
            return None
        except NotRun:
            # Later, and not here: a server without a free connection is no reason to run it beside
            # others.
            return Ended(claimed, Again(worker.clock.now() + AFTER_DEFECT))
        except ProcessDied as error:
            after = partial(self._after_death, death=error)
            return self.ended(self._in_company(run, after))

    def _after_death(self, run: Run, death: ProcessDied) -> RunEnd:
        """The end of a run whose own process died: a failed attempt, or an end that is written.

        Race: it died between the commit of an ``atomic`` run and its answer.
        """
        with suppress(TaskException):
            run = with_own_terms(run)
        duration = ticks() - run.started.monotonic
        try:
            if run.handler.atomic and not is_ours(run.claimed, using=self._using):
                logs.died_after_its_end(run.task, death)
                return run, Settled()
        except Error as error:
            return self._unsettled(run, error, duration)
        self._refusals.forget(run.claimed.id)
        run, outcome = self._endings.failed(run, death, duration)
        if isinstance(outcome, Retry):
            outcome = replace(outcome, is_suspect=True)
        return run, outcome

    # This process

    def tried(self, run: Run) -> RunEnd:
        """The end of a run that has been told of."""
        started = ticks()
        try:
            end = self._called(run)
        except NotBegun:
            # Not at once: a server that refuses this thread and serves the poller would be asked,
            # and would refuse, a thousand times a second.
            return run, Again(self._standing.clock.now() + FIRST_DELAY)
        except Unanswered as error:
            return self._unsettled(run, error.__cause__ or error, ticks() - started)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome
            if isinstance(error, ClaimLost) and run.claimed.id in error.ids:  # not another's
                return run, Lost()
            self._refusals.forget(run.claimed.id, error)
            return self._endings.failed(run, error, ticks() - started)
        duration = ticks() - started
        self._endings.warn_if_slow(run, duration)
        self._endings.succeeded(end, duration)
        self._refusals.forget(run.claimed.id)
        return (end[0], settled(end[1])) if run.handler.atomic else end

    def _called(self, run: Run) -> RunEnd:
        is_told = True
        try:
            if run.handler.atomic:
                perform = partial(self._calls.one, run)
                end = atomically([run], perform, self._write, using=self._using)
            else:
                end = self._calls.one(run)
            is_told = bool(signals.task_succeeded.receivers or signals.task_rescheduled.receivers)
            return end
        finally:
            # Before hooks and receivers write. Where there are none, the thread does it next.
            if is_told:
                leave(run.task)

    def _write(self, end: RunEnd) -> None:
        self._endings.refuse_given_up([end[0].claimed])
        finish_inside([self.ended(end)], self._standing.clock.now(), using=self._using)

    def _unsettled(self, run: Run, error: BaseException, duration: float) -> RunEnd:
        """The database has refused the end, or has not answered: again, and later each time.

        A refusal that is for good, such as a quota, is a failed attempt once it has come often.
        """
        drop_connections()
        refusals = self._refusals.note(run.claimed.id)
        if refusals < MOST_REFUSALS:
            logs.not_settled(run.task, error)
            when = self._standing.clock.now() + delay_after(refusals)
            return run, Unsettled(Again(when))
        self._refusals.forget(run.claimed.id)
        run, bad = self._endings.failed(run, error, duration)
        # A schedule that goes on all the same is no end that may be written twice.
        return run, Unsettled(
            bad if isinstance(bad, Retry | Fail) else Fail(bad.error, bad.exception)
        )

    def ended(self, end: RunEnd) -> Ended:
        """The end as the finisher takes it, with its line if the history is to keep one."""
        run, outcome = end
        claimed, started = run.claimed, run.started
        reading, begin = started
        # No function for it: it is a fiftieth of the time of a run that does nothing.
        late = (reading.utc - claimed.when).total_seconds() + (begin - reading.monotonic)
        took = ticks() - begin
        missed = ", ".join(run.missed) if run.missed else ""
        if not keeps(history_of(run.handler), outcome, missed):
            return Ended(claimed, outcome, missed, None, late, took)
        now, worker = self._standing.clock.now(), self._standing.name
        note = run.handler._note(claimed.biz_ext)
        line = line_of(claimed, outcome, started.utc, now, worker=worker, missed=missed, note=note)
        return Ended(claimed, outcome, missed, line, late, took)
