"""Runs of several tasks of one code by one call of their handler.

Each promise that holds for a run by itself holds for each of them: see ``execution``. A batch that
fails is run again in halves, until those that make it fail are alone. So no task is charged with
an attempt for another one.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import NamedTuple, Protocol

from django_tasks import logs, signals
from django_tasks.clock import Tick
from django_tasks.exceptions import ClaimLost, TaskTimeout
from django_tasks.handlers.companions import COMPANIONS, accompanied
from django_tasks.handlers.current import CURRENT, Batch, about
from django_tasks.handlers.registry import terms_for
from django_tasks.host.clocks import ticks
from django_tasks.store.claimed_rows import unmoved
from django_tasks.store.connection import drop_connections
from django_tasks.store.errors import is_refusal
from django_tasks.store.finish import Ended, finish_inside
from django_tasks.store.gates import has_rate
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import DONE, Again, GiveBack, Lost, Unsettled, settled
from django_tasks.worker.atomic import NotBegun, Unanswered, atomically
from django_tasks.worker.endings import Endings
from django_tasks.worker.executor import TakeEnds
from django_tasks.worker.fresh_context import FreshContext
from django_tasks.worker.handler_calls import Answer, Calls
from django_tasks.worker.run import Run, RunEnd, Standing, leave

# After a refusal, doubled each time.
FIRST_DELAY = timedelta(seconds=1)
LONGEST_DELAY = timedelta(seconds=60)
# Refusals in a row that make a failed attempt.
MOST_REFUSALS = 10


class Refusals:
    """Counts of refusals in a row, by row. For all threads."""

    CAPACITY = 10_000

    def __init__(self, using: str) -> None:
        self._using = using
        self._lock = Lock()
        self._counts: dict[int, int] = {}

    def note(self, row_id: int) -> int:
        """Count one more; returns the count."""
        with self._lock:
            count = self._counts.pop(row_id, 0) + 1
            if len(self._counts) >= self.CAPACITY:
                self._counts.pop(next(iter(self._counts)))  # the oldest
            self._counts[row_id] = count
            return count

    def has(self, row_id: int) -> bool:
        """Tell if the last end of this row was refused."""
        return row_id in self._counts

    def forget(self, row_id: int, error: BaseException | None = None) -> None:
        """After any end, unless it failed by an ``error`` that would come again."""
        if self._counts and (error is None or not self.would_come_again(error)):
            with self._lock:
                self._counts.pop(row_id, None)

    def would_come_again(self, error: BaseException) -> bool:
        """Tell if halves would likely fail in the same way, and take as long to do so.

        A database that is down, or the timeout of the whole call: 500 tasks that each wait for it
        would be a thousand calls of one thread.
        """
        if isinstance(error, TimeoutError | TaskTimeout):
            return True
        return isinstance(error, Exception) and is_refusal(error, using=self._using)


def delay_after(refusals: int) -> timedelta:
    """The pause after this number of refusals."""
    return min(FIRST_DELAY * 2.0 ** (refusals - 1), LONGEST_DELAY)


class Ending(NamedTuple):
    """The end of one run of a batch, and the exception that its handler has answered for it."""

    end: RunEnd
    error: BaseException | None


class Called(NamedTuple):
    """The ends that a call has brought, and the runs that are to be called again, in parts."""

    ends: list[RunEnd]
    parts: Sequence[Sequence[Run]] = ()


class Singles(Protocol):
    """The side of a runner that runs one claim by itself."""

    def start_of(self, run: Run) -> Run | RunEnd: ...

    def tried_alone(self, run: Run) -> RunEnd: ...

    def ended(self, end: RunEnd) -> Ended: ...

    def defect(self, run: Run, error: BaseException) -> RunEnd: ...

    def may_start(self, claimed: Claimed) -> bool: ...


class Batches:
    """Called by all executor threads at once."""

    def __init__(
        self,
        using: str,
        standing: Standing,
        calls: Calls,
        endings: Endings,
        refusals: Refusals,
        singles: Singles,
    ) -> None:
        self._using = using
        self._standing = standing
        self._calls = calls
        self._endings = endings
        self._refusals = refusals
        self._singles = singles

    def run(self, runs: Sequence[Run], take: TakeEnds) -> list[Ended]:
        """Run those that are to start, together; returns the ends of the last call.

        ``take`` is called after each call before it, with the ends that it has brought, or
        none: whoever runs next may take long, or never end.
        """
        perform = partial(self._run, runs, take)
        if not COMPANIONS:
            return perform()
        return accompanied([run.task for run in runs], perform)

    def _run(self, runs: Sequence[Run], take: TakeEnds) -> list[Ended]:
        left = len(runs)
        for ends in self._in_turn(runs):
            ended = [self._singles.ended(end) for end in ends]
            left -= len(ended)
            if not left:
                return ended
            take(ended)
        return []

    def _in_turn(self, runs: Sequence[Run]) -> Iterator[list[RunEnd]]:
        starts = [self._start_of(run) for run in runs]
        if ends := [start for start in starts if not isinstance(start, Run)]:
            yield ends
        begun = [start for start in starts if isinstance(start, Run)]
        for run in begun:
            run.tell(signals.task_started)
        alone: list[Run] = []
        together: list[Run] = []
        for run in begun:
            (alone if self._refusals.has(run.claimed.id) else together).append(run)
        first, *others = [*([run] for run in alone), together]
        yield from self._tried(first)
        for part in others:
            yield from self._tried_again(part)

    def _start_of(self, run: Run) -> Run | RunEnd:
        with about(run.task):
            return self._singles.start_of(run)

    def _tried(self, runs: Sequence[Run]) -> Iterator[list[RunEnd]]:
        """The ends of runs that have been told of. Each call has a context of its own."""
        if not runs:
            return
        if not self._singles.may_start(runs[0].claimed):
            yield [(run, GiveBack()) for run in runs]
        elif len(runs) == 1:
            yield [self._tried_alone(runs[0])]
        else:
            ends, parts = FreshContext().run(self._tried_together, runs)
            yield ends
            for part in parts:
                yield from self._tried_again(part)

    def _tried_alone(self, run: Run) -> RunEnd:
        try:
            return FreshContext().run(self._singles.tried_alone, run)
        except BaseException as error:  # noqa: BLE001 - one task's defect is not the batch's
            return self._singles.defect(run, error)

    def _tried_again(self, runs: Sequence[Run]) -> Iterator[list[RunEnd]]:
        """The same after another call, which has taken its time.

        What clients have cancelled, paused, moved, changed or added again since its claim goes back
        as its row says now, as after a run by itself that has failed, and is charged nothing.
        Of what was given up meanwhile the end has been told.
        """
        if not runs:
            return
        claims = [run.claimed for run in runs]
        try:
            found = unmoved(claims, using=self._using)
        except Exception as error:  # noqa: BLE001 - a pool's own may come as well
            yield self._unsettled(runs, error)
            return
        is_given_up = self._endings.is_given_up
        here = {each.id for each in claims if each.id in found and not is_given_up(each)}
        left = [run for run in runs if run.claimed.id in here]
        if len(left) < len(runs):
            yield self._later([run for run in runs if run.claimed.id not in here])
        if left and not self._singles.may_start(left[0].claimed):
            yield self._later(left)
        else:
            started = self._standing.clock.tick()
            yield from self._tried([_as_before(run, started) for run in left])

    def _later(self, runs: Sequence[Run]) -> list[RunEnd]:
        """Give runs that have begun back, to be tried again: they are late by no misfire."""
        now = self._standing.clock.now()
        return [(run, Again(now)) for run in runs]

    def _tried_together(self, runs: Sequence[Run]) -> Called:
        CURRENT.set(Batch(tuple(run.task for run in runs)))  # in a context of its own
        started = ticks()
        try:
            endings = self._performed(runs)
        except ClaimLost as lost:
            return self._without(runs, lost)
        except NotBegun:
            later = self._standing.clock.now() + FIRST_DELAY
            return Called([(run, Again(later)) for run in runs])
        except Unanswered as error:
            return Called(self._unsettled(runs, error.__cause__ or error))
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome
            if self._refusals.would_come_again(error) or self._has_rate(runs[0]):
                return Called(self._unsettled(runs, error))
            logs.batch_failed(runs[0].task, len(runs), error)
            return Called([], _halves(runs))
        return Called(self._told(endings, ticks() - started))

    def _performed(self, runs: Sequence[Run]) -> list[Ending]:
        perform = partial(self._called, runs)
        try:
            if not runs[0].handler.atomic:
                return perform()
            return atomically(runs, perform, self._write, using=self._using)
        finally:
            leave(runs[0].task)  # before hooks and receivers write, or the next part is called

    def _called(self, runs: Sequence[Run]) -> list[Ending]:
        """Call the handler. Nobody is told of the ends yet: they may be rolled back."""
        return [self._ending(answer) for answer in self._calls.all(runs)]

    def _ending(self, answer: Answer) -> Ending:
        run, end, error = answer
        if error is not None:
            return Ending(self._endings.after_failure(run, error), error)
        return Ending(end or (run, DONE), None)

    def _write(self, endings: Sequence[Ending]) -> None:
        self._endings.refuse_given_up([ending.end[0].claimed for ending in endings])
        for ending in endings:
            self._endings.call_hook_inside(*ending)
        ends = [self._singles.ended(ending.end) for ending in endings]
        finish_inside(ends, self._standing.clock.now(), using=self._using)

    def _told(self, endings: Sequence[Ending], duration: float) -> list[RunEnd]:
        run, _ = endings[0].end
        self._endings.warn_if_slow(run, duration, len(endings))
        return [self._told_of_one(*ending, duration) for ending in endings]

    def _told_of_one(self, end: RunEnd, error: BaseException | None, duration: float) -> RunEnd:
        if error is None:
            self._endings.succeeded(end, duration)
        else:
            self._endings.tell_of_failure(end, error, duration, end[0].handler.atomic)
        return (end[0], settled(end[1])) if end[0].handler.atomic else end

    def _without(self, runs: Sequence[Run], lost: ClaimLost) -> Called:
        """Those that were lost, and the rest to be called again: all was rolled back.

        In halves, if it was a ClaimLost of none of these.
        """
        left = [run for run in runs if run.claimed.id not in lost.ids]
        gone: list[RunEnd] = [(run, Lost()) for run in runs if run.claimed.id in lost.ids]
        if left and self._has_rate(left[0]):
            return Called([*gone, *self._unsettled(left, lost)])
        return Called(gone, [left] if gone else _halves(runs))

    def _has_rate(self, run: Run) -> bool:
        """Tell if starts are counted: each task then comes again through the gate, by itself."""
        own = terms_for(run.claimed.biz_code).limit
        try:
            return has_rate(run.claimed.biz_code, own, using=self._using)
        except Exception:  # noqa: BLE001 - the database will be asked again by whoever comes later
            return True

    def _unsettled(self, runs: Sequence[Run], error: BaseException) -> list[RunEnd]:
        """Each comes again later, by itself, and is charged nothing for this."""
        drop_connections()
        logs.batch_not_settled(runs[0].task, len(runs), error)
        now = self._standing.clock.now()
        delays = [delay_after(self._refusals.note(run.claimed.id)) for run in runs]
        return [
            (run, Unsettled(Again(now + delay))) for run, delay in zip(runs, delays, strict=True)
        ]


def _halves(runs: Sequence[Run]) -> Sequence[Sequence[Run]]:
    middle = len(runs) // 2
    return runs[:middle], runs[middle:]


def _as_before(run: Run, started: Tick) -> Run:
    """A run that is to be called again, with the payload that its row has; its time begins anew.

    Of an ``atomic`` handler all was rolled back, whatever its tasks have saved as well.
    """
    again = run.task.begun_again(started, is_saved=not run.handler.atomic)
    return run._replace(task=again, started=started)
