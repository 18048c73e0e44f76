"""One worker: a poller in a thread of its own, an executor beside it, one database."""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic

from django.db import Error
from django.dispatch import Signal

from django_tasks import bell, logs, signals
from django_tasks.store.connection import close_connections, keep_connection
from django_tasks.store.transactions import is_contention
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.execution import Runner
from django_tasks.worker.executor import Executor
from django_tasks.worker.hearing import Hearing
from django_tasks.worker.membership import Membership
from django_tasks.worker.outage import Outage
from django_tasks.worker.poller import Poller

CONTENTION_SECONDS = 0.01


class Worker:
    """``start``, ``stop`` and ``join``; stopping twice, or before it was started, is fine.

    It starts when the database does: until then it tries again, and says so once.
    """

    def __init__(self, config: WorkerConfig, ended: Callable[[], None] = lambda: None) -> None:
        """``ended`` is called from the worker's thread, as its last act."""
        self.config = config
        self._ended = ended
        self._woken = Event()
        self._stopping = Event()
        self._membership = Membership(config)
        self._loop = EventLoop()
        runner = Runner(config.using, self._membership, self._loop)
        self._executor = Executor(config.threads, runner, self._wake)
        self._poller = Poller(config, self._membership, self._executor)
        self._outage = Outage(config.using)
        self._hearing = Hearing(
            config.using, config.doorbell, self._woken.set, self._membership.is_drawn
        )
        self._thread = Thread(target=self._main, name=f"django_tasks-{config.using}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Quiet: claim no more, give back what has not started, let what runs end."""
        self._stopping.set()
        self._woken.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if ``timeout`` seconds were not enough."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def is_wanted(self) -> bool:
        """Whether it runs and nobody has asked it to stop."""
        return self.is_alive() and not self._stopping.is_set()

    def running(self) -> list[str]:
        """The keys of the tasks that run now."""
        return [str(claimed) for claimed in self._poller.running()]

    def runs(self) -> int:
        """How many runs have ended."""
        return self._poller.runs()

    def _wake(self) -> None:
        """For the threads, at every end: to look is cheaper than to set.

        Race: the poller is just waking up. It collects ends after it has cleared the event, and
        a thread has put its end there before it looks.
        """
        if not self._woken.is_set():
            self._woken.set()

    def _main(self) -> None:
        bell.listen(self.config.using, self._woken.set)
        try:
            self._membership.can_be_rung_at(self._hearing.open())
            if self._joined():
                self._run()
        finally:
            bell.stop_listening(self.config.using, self._woken.set)
            self._hearing.stop()
            self._executor.close()
            self._executor.join()
            self._loop.close()
            close_connections()
            self._ended()

    def _joined(self) -> bool:
        """Enter the table of workers as soon as the database lets us; False if stopped first."""
        while not self._stopping.is_set():
            try:
                keep_connection(self.config.using, self.config.lock_wait)
                self._membership.join()
            except Error as error:
                self._stopping.wait(self._outage.delay_after(error, kept=0))
            else:
                self._outage.is_over()
                return True
        return False

    def _run(self) -> None:
        self._tell(signals.worker_started)
        self._executor.start()
        self._hearing.start()
        while not self._poller.finished:
            self._woken.wait(self._cycle())
            self._woken.clear()
            if self._stopping.is_set():
                self._poller.quieten()
        self._tell(signals.worker_stopped)

    def _tell(self, signal: Signal) -> None:
        signals.tell(
            signal,
            None,
            worker_id=self._membership.worker_id,
            name=self._membership.name,
            using=self.config.using,
        )

    def _cycle(self) -> float:
        """One cycle of the poller that survives whatever happens; returns how long to sleep."""
        try:
            delay = self._poller.run_once()
        except Error as error:
            return self._after(error)
        except Exception:  # noqa: BLE001 - a defect must not end the worker without a word
            logs.poller_failed(self.config.using)
            self._poller.unsure()
            return self.config.poll_interval
        self._outage.is_over()
        return delay

    def _after(self, error: Error) -> float:
        if is_contention(self.config.using, error):
            self._poller.contended()
            return CONTENTION_SECONDS
        self._poller.unsure()
        return self._outage.delay_after(error, self._poller.unwritten())


def stop_all(workers: list[Worker], timeout: float | None) -> list[Worker]:
    """Stop workers against one deadline; returns those that still run something."""
    deadline = None if timeout is None else monotonic() + timeout
    for worker in workers:
        worker.stop()
    return [
        worker
        for worker in workers
        if not worker.join(None if deadline is None else max(0.0, deadline - monotonic()))
    ]
