"""The parts of a worker that are others in place: on this thread and this connection.

All the rest is the worker's own.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

from asgiref.sync import async_to_sync

from django_tasks import signals
from django_tasks.clock import Clock, ClockReading, Tick
from django_tasks.handlers.base import TaskHandler
from django_tasks.host.clocks import ticks
from django_tasks.store import workers
from django_tasks.store.finish import Ended
from django_tasks.testing.autocommit import Autocommit
from django_tasks.testing.clock import present
from django_tasks.values.claimed import Claimed
from django_tasks.worker.active import Active
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.coroutines import EventLoop, Raised, limited
from django_tasks.worker.execution import Runner
from django_tasks.worker.handler_calls import Answer, Calls
from django_tasks.worker.membership import Membership, served_by
from django_tasks.worker.places import place_of
from django_tasks.worker.run import Run, RunEnd
from django_tasks.worker.timeouts import Timeouts

# Makes a context.
Around = Callable[[], AbstractContextManager[None]]


class PlaceClock(Clock):
    """The test's clock. For the bookkeeping of a worker it stands still: nothing is found dear, and
    what a limit has closed stays closed for exactly as long as it says.
    """

    def __init__(self, using: str) -> None:
        super().__init__(ClockReading(present(using), 0.0))
        self._using = using

    @property
    def reading(self) -> ClockReading:
        return ClockReading(self.now(), ticks())

    def now(self) -> datetime:
        return present(self._using)

    def tick(self) -> Tick:
        reading = self.reading
        return Tick(reading, reading.monotonic)

    def monotonic(self) -> float:
        return 0.0


class PlaceMembership(Membership):
    """The only worker of a test: it has a row, and no heartbeat. Its lease does not end."""

    def __init__(self, config: WorkerConfig) -> None:
        super().__init__(config)
        self.clock = PlaceClock(config.using)

    def join(self) -> int:
        now, using = self.clock.now(), self._config.using
        self.worker_id = workers.register(
            self.registration(served_by(self._config)), now, using=using
        )
        return self.worker_id

    def is_valid(self, now: float | None = None) -> bool:
        return True


class PlaceActive(Active):
    """Of sticky handlers the worker of a test is the active one."""

    def is_active(self, biz_code: str) -> bool:
        return True


class PlaceLoop(EventLoop):
    """An event loop for each coroutine; its ``sync_to_async`` calls come to this thread."""

    def __init__(self) -> None:
        super().__init__()
        self._running: Coroutine[Any, Any, Any] | None = None

    def place(self) -> str:
        """File and line where the coroutine is; empty if none runs."""
        return "" if self._running is None else place_of(self._running)

    def run(
        self, coroutine: Coroutine[Any, Any, Any], timeout: float | None, name: str = "handle()"
    ) -> Any:
        self._running = coroutine
        work = coroutine if timeout is None else limited(coroutine, timeout, name)
        try:
            result = async_to_sync(_carried)(work)
        finally:
            self._running = None
        if isinstance(result, Raised):
            raise result.error
        return result


async def _carried(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coroutine
    except BaseException as error:  # noqa: BLE001 - raised again, past asyncio
        return Raised(error)


class PlaceTimeouts(Timeouts):
    """No thread interrupts a test: that a time has passed is told when the run has ended."""

    def call(
        self, runs: Sequence[Run], seconds: float, name: str, method: Callable[..., Any], what: Any
    ) -> Any:
        return method(what)

    def during(
        self,
        runs: Sequence[Run],
        seconds: float | None,
        name: str,
        call: Callable[[], Any],
        place: Callable[[], str] | None = None,
    ) -> Any:
        return call()


class PlaceCalls(Calls):
    """Calls after which nothing that a block has left for its commit is waiting."""

    def __init__(
        self,
        membership: Membership,
        loop: EventLoop,
        timeouts: Timeouts,
        autocommit: Autocommit,
        around: Around,
    ) -> None:
        """Each call is made in a context that ``around`` makes."""
        super().__init__(membership, loop, timeouts)
        self._autocommit = autocommit
        self._around = around

    def one(self, run: Run) -> RunEnd:
        if run.handler.batch is not None:  # it comes to ``all``
            return super().one(run)
        with self._committed():
            return super().one(run)

    def all(self, runs: Sequence[Run]) -> list[Answer]:
        with self._committed():
            return super().all(runs)

    @contextmanager
    def _committed(self) -> Iterator[None]:
        with self._around():
            try:
                yield
            finally:
                self._autocommit.flush()


class PlaceRunner(Runner):
    """Runs each claim here, also one whose worker has died twice."""

    def run_apart(self, claimed: Claimed, handler: TaskHandler) -> Ended | None:
        return None

    def run_bare(self, claimed: Claimed, handler: TaskHandler) -> None:
        """Run a claim and write no end of it, but that of an ``atomic`` run, which is a part of its
        transaction. Whatever the handler raises passes: for the run of a process that dies.
        """
        run = self._begun(claimed, handler, self._standing.clock.tick())
        self._in_company(run, self._barely)

    def _barely(self, run: Run) -> None:
        start = self.start_of(run)
        if not isinstance(start, Run):
            return
        start.tell(signals.task_started)
        self._called(start)
