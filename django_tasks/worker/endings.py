"""The consequences of an end: the next try, the next time, the signals, the hook, the log."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from inspect import iscoroutine
from typing import Any

from django.db import InterfaceError, InternalError, OperationalError, transaction

from django_tasks import logs, signals
from django_tasks.backoff import ByError, Exponential, as_backoff, seconds
from django_tasks.clock import Clock
from django_tasks.exceptions import ClaimLost, RetryLater, TaskTypeError, TaskValueError
from django_tasks.handlers import companions
from django_tasks.handlers.base import may_retry
from django_tasks.handlers.current import about
from django_tasks.sentences import sentence as _
from django_tasks.store.connection import drop_connections
from django_tasks.timezones import aware
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Done, Fail, Reschedule, Retry
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.error_text import class_path, error_text
from django_tasks.worker.misfires import UnreadableSchedule, following
from django_tasks.worker.run import Run, RunEnd, Standing, leave

LONGEST_DELAY = timedelta(days=3650)


class Endings:
    """Called by all executor threads at once."""

    def __init__(self, standing: Standing, loop: EventLoop) -> None:
        self._standing = standing
        self._loop = loop
        # Ids and versions of the claims whose runs were given up: their ends have been told.
        self._given_up: set[tuple[int, ...]] = set()

    def give_up(self, runs: Sequence[Run], error: BaseException) -> list[RunEnd]:
        """The ends of runs that do not end, as failed. Nobody is told of ends of their own."""
        self._given_up.update([run.claimed[:2] for run in runs])
        return [self.after_failure(run, error) for run in runs]

    def is_given_up(self, claimed: Claimed) -> bool:
        return bool(self._given_up) and claimed[:2] in self._given_up

    def refuse_given_up(self, claims: Sequence[Claimed]) -> None:
        """Raise ClaimLost, for the caller to roll back, where a run was given up meanwhile."""
        if lost := [claimed for claimed in claims if self.is_given_up(claimed)]:
            names = ", ".join(map(str, lost))
            text = _("%(task)s was taken over while it ran", task=names)
            raise ClaimLost(text, [claimed.id for claimed in lost])

    def succeeded(self, end: RunEnd, duration: float) -> None:
        """Tell of a run whose handler has returned after ``duration`` seconds."""
        run, outcome = end
        if self._given_up and self.is_given_up(run.claimed):
            return
        match outcome:
            case Done():
                logs.succeeded(run.task, duration)
                run.tell(signals.task_succeeded, seconds=duration)
            case Reschedule(when):
                logs.rescheduled(run.task, duration, when)
                run.tell(signals.task_rescheduled, seconds=duration, when=when)

    def failed(self, run: Run, error: BaseException, duration: float) -> RunEnd:
        """The end of a run that has failed with ``error`` after ``duration`` seconds."""
        if isinstance(error, OperationalError | InterfaceError | InternalError):
            drop_connections()
        self.warn_if_slow(run, duration)
        end = self.after_failure(run, error)
        self.tell_of_failure(end, error, duration)
        return end

    def tell_of_failure(self, end: RunEnd, error: BaseException, *facts: Any) -> None:
        """Tell of a run that has failed with ``error``; of one that was given up it was told.

        ``facts``: the seconds that it took, and whether its hook was called already.
        """
        if not self.is_given_up(end[0].claimed):
            self.tell_of_given_up(end, error, *facts)

    def tell_of_given_up(
        self, end: RunEnd, error: BaseException, duration: float, has_hooked: bool = False
    ) -> None:
        """The same of one that was given up: the first of its two ends."""
        run, outcome = end
        with about(run.task):  # one of a batch, perhaps
            if isinstance(outcome, Retry):
                when = outcome.when
                companions.tell_of_failure(run.task, error, is_final=False)
                run.tell(signals.task_retried, seconds=duration, when=when, exception=error)
            elif isinstance(outcome, Fail | Reschedule):
                companions.tell_of_failure(run.task, error, is_final=True)
                if not has_hooked:
                    self._on_failure(run, error)
                run.tell(signals.task_failed, seconds=duration, exception=error)

    def warn_if_slow(self, run: Run, duration: float, count: int = 1) -> None:
        """Say that a run, or a batch of ``count``, took longer than its timeout."""
        limit = run.timeout
        if limit is not None and duration > limit:
            logs.took_too_long(run.task, duration, limit, count)

    def after_failure(self, run: Run, error: BaseException) -> RunEnd:
        """Try again, or was that the last attempt? A schedule goes on all the same."""
        with about(run.task):  # one of a batch, perhaps
            return self._after_failure(run, error)

    def _after_failure(self, run: Run, error: BaseException) -> RunEnd:
        attempt = run.claimed.attempts + 1
        is_left = attempt < run.policy.max_attempts
        text, path = error_text(error), class_path(error)
        if is_left and not isinstance(error, UnreadableSchedule) and may_retry(run.handler, error):
            when = self._time_to_retry(run, error, attempt)
            if when is not None:
                return run, Retry(when, text, exception=path)
        facts = {"error": text, "exception": path, "counts_as": "failed"}
        try:
            end = following(run, self._standing.clock, **facts)
        except Exception as defect:  # noqa: BLE001 - a user's trigger may raise anything
            return run, Fail(error_text(defect), class_path(defect))
        return end or (run, Fail(text, path))

    def _time_to_retry(self, run: Run, error: BaseException, attempt: int) -> datetime | None:
        if isinstance(error, RetryLater):
            try:
                return moment_of("RetryLater", error.when, self._standing.clock)
            except (TaskValueError, OverflowError):
                logs.backoff_failed(run.task)
        delay = _delay(run, error, attempt)
        return None if delay is None else self._standing.clock.now() + delay

    def call_hook_inside(self, end: RunEnd, error: BaseException | None) -> None:
        """Call the hook of a failed task in the transaction of its ``atomic`` batch.

        After that, a process that dies would lose it: the row is FAILED, and nobody runs it again.
        """
        run, outcome = end
        if error is not None and isinstance(outcome, Fail | Reschedule):
            with about(run.task):
                self._on_failure(run, error, transaction.atomic(using=run.using))

    def _on_failure(self, run: Run, error: BaseException, block: Any = None) -> None:
        try:
            with block or nullcontext():
                hook: Callable[..., Any] = run.handler.on_failure  # it may be async
                if iscoroutine(answer := hook(run.task, error)):
                    self._loop.run(answer, None)
        except BaseException:  # noqa: BLE001 - the hook's failure changes nothing
            logs.hook_failed("on_failure", run.task)
        if block is None:
            leave(run.task, "on_failure of ")


MOMENTS = _("must be a datetime or a timedelta")


def moment_of(field: str, answer: Any, clock: Clock, rule: str = MOMENTS) -> datetime:
    """A time that a handler gave, as aware UTC. Raises TaskTypeError and TaskValueError.

    ``rule`` is what the error says of another type.
    """
    if isinstance(answer, timedelta):
        answer = clock.now() + answer
    elif not isinstance(answer, datetime):
        raise TaskTypeError(field, answer, rule)
    return aware(field, answer)


def _delay(run: Run, error: BaseException, attempt: int) -> timedelta | None:
    """The task's backoff, or the default one if that fails: a task must not be lost over it.

    None: it is not to be tried again.
    """
    try:
        delay = _answer(run, error, attempt)
    except Exception:  # noqa: BLE001 - a user's backoff may raise anything
        logs.backoff_failed(run.task)
        delay = Exponential().delay(attempt)
    return None if delay is None else timedelta(seconds=min(delay, LONGEST_DELAY.total_seconds()))


def _answer(run: Run, error: BaseException, attempt: int) -> float | None:
    backoff = as_backoff(run.policy.backoff)
    if not isinstance(backoff, ByError):
        return seconds(backoff.delay(attempt))
    delay = backoff.delay_after(error, run.task)
    return None if delay is None else seconds(delay)
