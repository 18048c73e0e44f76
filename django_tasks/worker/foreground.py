"""A worker for one task that a person wants to run here, in this thread, now.

It has a row, a lease and heartbeats as any other: nobody else runs the task meanwhile, and if this
process dies another worker takes it over. Handlers are called as a worker calls them, and the end
is written as a worker writes it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, NamedTuple

from django_tasks import signals
from django_tasks.exceptions import TaskException
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import terms_for
from django_tasks.host.clocks import ticks
from django_tasks.sentences import sentence as _
from django_tasks.store import gates
from django_tasks.store.claim import Claimer, claim_row
from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.counting import Counts
from django_tasks.worker.execution import Runner
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.handler_calls import Calls
from django_tasks.worker.heartbeat import Heartbeat, Report
from django_tasks.worker.marks import Marks
from django_tasks.worker.membership import Membership
from django_tasks.worker.run import Run, RunEnd
from django_tasks.worker.timeouts import Timeouts

# Of a worker that is for one task: a search for workers that take others passes it by.
STATE = "foreground"
# How long the database may take to let it in, in leases.
PATIENCE = 1.0
CLOSE_SECONDS = 5.0


class CannotRun(TaskException):
    """The task cannot run here now, for a reason that is not its own."""


class ForegroundRun(NamedTuple):
    """One run: its end in the word of the history, what was raised, and the seconds it took."""

    outcome: str
    error: BaseException | None
    seconds: float


class Foreground:
    """Used by one thread, which calls the handler. ``run`` inside ``at_work``."""

    def __init__(self, config: WorkerConfig, *, is_timed: bool = True) -> None:
        """``is_timed``: timeouts interrupt the handler, as they do in a worker."""
        self._config = config
        self._membership = Membership(config)
        # Read by the thread of the heartbeats, which writes them.
        self.counts = Counts(self._membership.clock.now)
        self._finisher = Finisher(config, Marks(), self._membership.name, self._tell, self.counts)
        self._loop = EventLoop()
        self._timeouts = Timeouts() if is_timed else Untimed()
        self._calls = KeepingCalls(self._membership, self._loop, self._timeouts)
        self._runner = HereRunner(
            config.using, self._membership, self._loop, self._timeouts, calls=self._calls
        )
        self._news = Event()
        self._heartbeat = Heartbeat(config, self._membership, self, self._news.set, _at_once)
        self._is_lost = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have a row among the workers, and its heartbeats."""
        self._heartbeat.start()
        try:
            self._join()
            yield
        finally:
            # What was not written is rescued by others, once its owner is silent.
            self._heartbeat.stop(leave=self._finisher.is_empty())
            self._heartbeat.join(CLOSE_SECONDS)
            self._timeouts.close()
            self._loop.close()

    def claim(self, biz_code: str, biz_num: str, *, failed: bool) -> Claimed | None:
        """Claim one task, a FAILED one too if that is said; None if it cannot be had.

        CannotRun: a limit of its code lets none start now.
        """
        now, using = self._membership.clock.now(), self._config.using
        claimer = Claimer(self._membership.worker_id)

        def take(most: int) -> list[Claimed]:
            claimed = claim_row(claimer, biz_code, biz_num, now, using=using, failed=failed)
            return [] if claimed is None else [claimed]

        # An operator may have set a limit for a code that has none of its own: the gate tells.
        own = terms_for(biz_code).limit
        claims, closed_for, _receipt = gates.pass_gate(biz_code, own, now, take, using=using)
        if not claims and closed_for:
            raise CannotRun(
                _("a limit of %(biz_code)s lets no task of it start now", biz_code=biz_code)
            )
        self._finisher.hold(claims)
        return claims[0] if claims else None

    def run(self, claimed: Claimed) -> ForegroundRun:
        """Run what was claimed and write its end; database errors of that pass."""
        started = ticks()
        (ended,) = self._runner((claimed,))
        seconds = ticks() - started
        self._finisher.add([ended])
        while not self._finisher.is_empty():
            if self._finisher.write(self._membership.clock.now(), careful=False):
                self._news.wait(0.05)  # somebody holds the row
        return ForegroundRun(self._word(ended), self._calls.error, seconds)

    def _word(self, ended: Ended) -> str:
        return "lost" if self._is_lost else ended.outcome.counts_as

    def _join(self) -> None:
        deadline = ticks() + PATIENCE * self._config.lease
        while not self._heartbeat.joined:
            if ticks() > deadline or self._heartbeat.rejected.is_final:
                raise CannotRun(_("the database does not take this process as a worker"))
            self._news.wait(0.1)
            self._news.clear()
            self._heartbeat.ensure()

    def _tell(self, signal: Any, sender: Any, **facts: Any) -> None:
        if signal is signals.task_lost:
            self._is_lost = True
        signals.tell(signal, sender, **facts)

    # For the thread of the heartbeats

    def report(self) -> Report:
        """The words for its row."""
        return Report(STATE, dict(self._finisher.counters), busy=1)

    def seconds_in_cycle(self) -> float:
        """No poller is here that could hang."""
        return 0.0

    def relieve(self) -> int:
        """Nothing waits unstarted."""
        return 0


class KeepingCalls(Calls):
    """Keeps what a handler has raised, with its frames."""

    error: BaseException | None = None

    def one(self, run: Run) -> RunEnd:
        try:
            return super().one(run)
        except BaseException as error:
            self.error = error
            raise


class HereRunner(Runner):
    """Runs each claim in this process, also one whose worker has died twice."""

    def run_apart(self, claimed: Claimed, handler: TaskHandler) -> Ended | None:
        return None


class Untimed(Timeouts):
    """Interrupts nothing: a person in a debugger takes as long as it takes."""

    def call(
        self, runs: Any, seconds: float, name: str, method: Callable[..., Any], what: Any
    ) -> Any:
        return method(what)

    def during(
        self,
        runs: Any,
        seconds: float | None,
        name: str,
        call: Callable[[], Any],
        place: Any = None,
    ) -> Any:
        return call()


def _at_once(message: Callable[[], None]) -> None:
    message()
