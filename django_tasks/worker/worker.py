"""One worker: a poller in a thread of its own, an executor beside it, one database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from threading import Event, Lock, Thread

from django.db import Error
from django.dispatch import Signal

from django_tasks import logs, signals
from django_tasks.exceptions import TaskTimeout
from django_tasks.host.clocks import ticks
from django_tasks.store.connection import (
    close_connections,
    drop_connection,
    keep_connection,
    take_connection,
)
from django_tasks.store.errors import Kind, kind_of
from django_tasks.store.finish import Ended, finish
from django_tasks.store.rescue import forgive
from django_tasks.values.claimed import Claimed
from django_tasks.wakeup import local
from django_tasks.wakeup.listening import ListenerThread
from django_tasks.worker.active import Active
from django_tasks.worker.condition import Condition
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.execution import Runner
from django_tasks.worker.executor import Executor
from django_tasks.worker.heartbeat import Heartbeat
from django_tasks.worker.membership import Membership
from django_tasks.worker.notifier import Notifier
from django_tasks.worker.outage import Outage
from django_tasks.worker.passive import Passive
from django_tasks.worker.poller import LOCKED_SECONDS, Poller
from django_tasks.worker.rejected import RETRY_SECONDS, Rejected
from django_tasks.worker.run import Run
from django_tasks.worker.timeouts import Timeouts

CONTENTION_SECONDS = 0.01
# How long a worker that must end now tries to say that its runs are abandoned in order, and to have
# its counts written.
LAST_SECONDS = 2.0
# How long after the ends of runs that were given up the process ends, at the latest: its row is
# taken out, receivers hear of its end, and its main thread says goodbye.
LAST_ACT_SECONDS = 10.0


class Worker:
    """``start``, ``stop`` and ``join``; stopping twice, or before it was started, is fine.

    It starts when the database does: until then it tries again, and says so. ``failed`` turns true
    when its poller has ended by an error instead of by a stop, and ``is_rejected`` when the server
    has rejected a statement for good: then it ends as at a stop.
    """

    def __init__(
        self,
        config: WorkerConfig,
        ended: Callable[[], None] = lambda: None,
        kill: Callable[[], None] | None = None,
        *,
        has_neighbours: bool = False,
    ) -> None:
        """``ended`` is called from the worker's thread, as its last act.

        ``kill`` is called from any thread when a run has cost this process: the worker is stopping
        then, and ``is_condemned``. None: the process must not end, so no run is given up.
        ``has_neighbours``: there are other workers in the process, which may end later.
        """
        self.config = config
        self.failed = self.is_condemned = False
        self._signed_off = self._can_write_nothing = self._is_abandoned = False
        self._abandoning = Lock()
        self._has_neighbours, self._ended = has_neighbours, ended
        self._woken, self._stopping = Event(), Event()
        self._membership = Membership(config)
        self._loop = EventLoop()
        self._timeouts = Timeouts()
        self._notifier = Notifier(config.using)
        name, clock, post = self._membership.name, self._membership.clock, self._notifier.post
        self._active = Active(config, name, clock, self._wake, self._codes_running, post)
        self._passive = Passive(config, self._active, clock)
        self._runner = Runner(
            config.using, self._membership, self._loop, self._timeouts, self._may_run
        )
        if kill is not None:
            self._timeouts.on_kill(partial(self._give_up, kill))
        self._executor = Executor(config.threads, self._runner, self._wake, config.lease)
        self._poller = Poller(
            config, self._membership, self._executor, self._notifier.tell, self._active
        )
        self._heartbeat = Heartbeat(
            config, self._membership, self._poller, self._woken.set, self._notifier.post
        )
        self._outage = Outage(config.using)
        self._rejected = Rejected(config.using, config.lease)
        self._listener = ListenerThread(
            config.using, config.doorbell, self._hear, self._membership.is_drawn
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
        """Tell if it runs and nobody has asked it to stop."""
        return self.is_alive() and not self._stopping.is_set()

    @property
    def is_rejected(self) -> bool:
        """Tell if the server has rejected a statement for good. For any thread."""
        return any(rejected.is_final for rejected in self._all_rejected())

    def was_asked_to_stop(self) -> bool:
        """Tell if a person has asked for its end, by its row: nobody is to take its place."""
        return self._poller.was_asked_to_stop()

    def condition(self) -> Condition:
        """The present condition. For any thread; it waits for nothing."""
        if not self._thread.is_alive():
            return Condition.STARTING if self._thread.ident is None else Condition.ENDED
        if self._hangs():
            return Condition.HANGING
        if self._stopping.is_set() or self._poller.state() == "stopping":
            return Condition.STOPPING
        if self._outage.lasts() or self._is_held() or self._heartbeat.is_without_database():
            return Condition.WITHOUT_DATABASE
        if not self._heartbeat.joined:
            return Condition.STARTING
        return Condition.QUIET if self._poller.state() == "quiet" else Condition.WORKING

    def _is_held(self) -> bool:
        """Tell if it claims nothing because the server has rejected a statement."""
        return any(rejected.is_resting() for rejected in self._all_rejected())

    def _all_rejected(self) -> Iterator[Rejected]:
        yield self._rejected
        for other in (self._heartbeat, self._active, self._passive, self._poller):
            yield other.rejected

    def _hangs(self) -> bool:
        """Tell if the poller hangs over something else than its database.

        Where that is what it waits for, no heartbeat succeeds either: by the end of a cycle of a
        whole lease, the lease has passed.
        """
        seconds = self._poller.seconds_in_cycle()
        return seconds > self.config.lease and self._membership.is_valid()

    def has_signed_off(self) -> bool:
        """Tell if the database knows that it has ended: only receivers are still being called."""
        return self._signed_off

    def running(self) -> list[str]:
        """The keys of the tasks that run now, but of those that were given up."""
        return [str(claimed) for claimed in self._poller.ending()]

    def runs(self) -> int:
        """The number of runs that have ended."""
        return self._poller.runs()

    def abandon(self) -> None:
        """Say in the database that what still runs is abandoned in order, by a process that ends
        right afterwards, and have the last counts written.

        Does nothing that takes longer than two seconds, whatever the database does; where no thread
        can be started any more, than the bounds of a heartbeat.

        Race: the end of a run is written after the last counts. It counts nowhere. Another race:
        two threads call it, because one of them hangs. It is said once: see ``forgive``.
        """
        with self._abandoning:
            is_abandoned, self._is_abandoned = self._is_abandoned, True
            if not is_abandoned:
                self._abandon(ticks() + LAST_SECONDS)

    def _abandon(self, deadline: float) -> None:
        self._heartbeat.write_counts()  # beside what follows, which may take all of the time
        if self._poller.running():
            thread = Thread(target=self._forgive, name="django_tasks-abandon", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # Python 3.12 and later start no thread when a process exits
                self._forgive()
            else:
                thread.join(LAST_SECONDS)
        self._heartbeat.write_counts(deadline - ticks())

    def _may_run(self, claimed: Claimed) -> bool:
        """Tell if a claim may start, or another call of its batch. For the threads of the runs."""
        return not self._stopping.is_set() and self._active.may_run(claimed)

    def _codes_running(self) -> set[str]:
        return {item[0].biz_code for item, _ in self._executor.running()}

    def _last_delay(self) -> timedelta:
        patience = self.config.shutdown_timeout if self._has_neighbours else 0.0
        return timedelta(seconds=LAST_ACT_SECONDS + patience)

    def _forgive(self) -> None:
        take_connection(self.config.using, self.config.heartbeat_bounds)
        stuck = [fence[0] for fence in self._poller.given_up()]
        using, now = self.config.using, self._membership.clock.now()
        ends = self._poller.last_ends(now, self._last_delay())
        try:
            try:  # first: the other one waits for rows that runs hold locked
                finish(ends, now, using=using, careful=True)
            finally:
                forgive(self._membership.worker_id, stuck, using=using)
        except Error as error:
            logs.not_forgiven(using, error)
        finally:
            close_connections()

    def _wake(self) -> None:
        """For the threads, at every end: to look is cheaper than to set.

        Race: the poller is just waking up. It collects ends after it has cleared the event, and
        a thread has put its end there before it looks.
        """
        if not self._woken.is_set():
            self._woken.set()

    def _hear(self, overdue: bool) -> None:
        """For any thread: tasks were added, some of them perhaps due for a while already."""
        self._poller.note_hint()
        if overdue:
            self._poller.note_overdue()
        self._woken.set()

    def _give_up(self, kill: Callable[[], None], runs: Sequence[Run], error: TaskTimeout) -> None:
        """Give up runs that do not end, and with them this process. In a thread of its own.

        The process ends whatever the project's policy for the next try does: it may wait for what a
        stuck run holds. Then no end is told, and the row is rescued.
        """

        def write(ends: Sequence[Ended]) -> None:
            self._poller.give_up(ends)
            logs.killing(runs[0].task, error, len(runs))

        logs.send_through(self._notifier.post)
        try:
            with self._poller.awaiting_ends([run.claimed for run in runs]):
                self.is_condemned = True
                self.stop()
                kill()
                self._runner.give_up(runs, error, write)
        except BaseException:  # noqa: BLE001 - a policy of the project's may raise anything
            logs.run_failed(runs[0].task)
        finally:
            self._woken.set()
            close_connections()

    # The poller's thread

    def _main(self) -> None:
        logs.send_through(self._notifier.post)
        self._notifier.start()
        local.listen(self.config.using, self._hear)
        try:
            self._membership.can_be_rung_at(self._listener.open())
            take_connection(self.config.using, self.config.poller_bounds)
            self._heartbeat.start()
            if self._joined():
                self._run()
        except BaseException:  # noqa: BLE001 - said here, and with the exit code
            self._note_death()
        finally:
            self._close()
            self._ended()

    def _close(self) -> None:
        local.stop_listening(self.config.using, self._hear)
        self._listener.stop()
        self._active.retire()
        self._executor.close()
        stuck = self._poller.given_up()
        self._executor.join(stuck)
        self._timeouts.close()
        self._passive.close()
        self._active.close()
        # Who is told of runs that were given up may take long: no row is free before that.
        self._timeouts.await_told()
        while self._poller.has_given_up() and not self._has_written_given_up():
            self._woken.wait(LOCKED_SECONDS)
            self._woken.clear()
        if self.failed:  # else it writes them before its row goes
            self._heartbeat.write_counts(LAST_SECONDS)
        # Its row goes last, and only if nothing is left that others must rescue.
        leave = not (self.failed or self._must_be_rescued())
        self._heartbeat.stop(leave=leave)
        self._heartbeat.join()
        self._signed_off = leave and not self._heartbeat.joined
        if not stuck:  # else a coroutine may be what does not end
            self._loop.close()
        close_connections()
        self._notifier.close()

    def _has_written_given_up(self) -> bool:
        """Try to write the ends of runs that were given up; True also where that cannot be."""
        try:
            keep_connection(self.config.using)  # who was told of them may have taken long
            return self._poller.write_given_up(self._last_delay())
        except Error as error:
            self._after(error, had_ended=True)
            return self.is_rejected
        except BaseException:  # noqa: BLE001 - a defect must not keep the worker from its end
            logs.poller_failed(self.config.using)
            return True

    def _must_be_rescued(self) -> bool:
        return self.is_rejected and (
            self._heartbeat.rejected.is_open or not self._poller.has_written()
        )

    def _joined(self) -> bool:
        while not (self._stopping.is_set() or self.is_rejected):
            if self._heartbeat.joined:
                return True
            self._woken.wait(self.config.poll_interval)
            self._woken.clear()
            self._heartbeat.ensure()
        return False

    def _run(self) -> None:
        self._tell(signals.worker_started)
        self._executor.start()
        self._listener.start()
        while not (self._poller.finished or self._can_write_nothing):
            try:
                self._woken.wait(self._cycle())
                self._woken.clear()
                self._look_after()
            except BaseException:  # noqa: BLE001 - said there, and with the exit code
                self._note_death()
                self._woken.wait(self.config.poll_interval)
        self._tell(signals.worker_stopped)

    def _look_after(self) -> None:
        for each in (self._heartbeat, self._notifier, self._timeouts, self._active, self._passive):
            each.ensure()
        if self._poller.was_asked_to_stop() or self.is_rejected:
            self._stopping.set()
        if self._stopping.is_set():
            self._poller.quieten()
            # The process may give up waiting for the last run, and end.
            self._heartbeat.write_counts()
        self._active.retire(self._poller.claims_no_more())

    def _note_death(self) -> None:
        """Stop after an exception. The heartbeat goes on while something runs, so what waits goes
        back, even if each further cycle dies as well.
        """
        self._can_write_nothing = self.failed and not self._poller.ending()
        if not self.failed:
            self.failed = True
            logs.poller_died(self.config.using)
        self._stopping.set()
        self._poller.quieten()
        self._active.retire()
        with suppress(BaseException):
            self._poller.relieve()

    def _tell(self, signal: Signal) -> None:
        self._notifier.tell(
            signal,
            None,
            worker_id=self._membership.worker_id,
            name=self._membership.name,
            using=self.config.using,
        )

    def _cycle(self) -> float:
        """One cycle of the poller that survives whatever happens; returns how long to sleep."""
        self._poller.is_held = is_held = self._is_held()
        # Before the cycle: one that ends while it goes on is for the next, which may write it.
        had_ended = self._executor.has_ended_all()
        try:
            delay = self._poller.run_once()
        except Error as error:
            return self._after(error, had_ended)
        except Exception:  # noqa: BLE001 - a defect must not end the worker without a word
            logs.poller_failed(self.config.using)
            self._poller.unsure()
            return self.config.poll_interval
        self._outage.is_over()
        if not is_held:
            self._rejected.is_over()
        return delay

    def _after(self, error: Error, had_ended: bool) -> float:
        """Seconds until the next cycle. ``had_ended``: before this one, all runs had ended."""
        if kind_of(error, using=self.config.using) is Kind.CONTENTION:
            self._poller.contended()
            return CONTENTION_SECONDS
        self._poller.unsure()
        drop_connection(self.config.using)
        if self._rejected.note(error):
            # Of an outage the end is waited for, also by one that is to end.
            self._can_write_nothing = had_ended and self._rejected.is_final
            return RETRY_SECONDS
        return self._outage.delay_after(error, self._poller.unwritten())


def stop_all(workers: list[Worker], timeout: float | None) -> list[Worker]:
    """Stop workers against one deadline; returns those that still run something."""
    deadline = None if timeout is None else ticks() + timeout
    for worker in workers:
        worker.stop()
    return [
        worker
        for worker in workers
        if not worker.join(None if deadline is None else max(0.0, deadline - ticks()))
    ]


def abandon_all(workers: list[Worker]) -> None:
    """Have each ``abandon`` what it runs, all at once: each may take its two seconds."""
    for worker in workers:
        with suppress(RuntimeError):  # no thread is left, or see above
            Thread(target=worker.abandon, daemon=True).start()
    for worker in workers:
        worker.abandon()
