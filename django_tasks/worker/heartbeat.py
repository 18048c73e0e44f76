"""The thread that keeps a worker's lease, with a connection of its own.

It runs two bounded statements at each heartbeat, and one a minute, or when it is asked to, that
writes what was counted. It owes nothing to anybody: neither a statement of the poller that waits,
nor a receiver, nor a handler holds it up.
"""

from collections.abc import Callable, Mapping
from threading import Event
from typing import NamedTuple, Protocol

from django.db import Error

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.store.connection import (
    close_connections,
    drop_connection,
    keep_connection,
    take_connection,
)
from django_tasks.store.dialects import Bounds, has_one_writer
from django_tasks.store.transactions import is_contention
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.counting import HURRY_SECONDS, Counts, Recorder
from django_tasks.worker.membership import Membership
from django_tasks.worker.outage import Outage
from django_tasks.worker.rejected import Rejected
from django_tasks.worker.threads import LastingThread

# After an unknown error, a defect, seconds until the next try.
AFTER_DEFECT = 1.0
# The longest pause before another try of a heartbeat that failed, as a part of the lease.
RETRY_SHARE = 1 / 12
# Where there is one writer at a time, a heartbeat asks for its turn this often, in seconds. SQLite
# keeps no queue: those that wait look up, after a quarter of a second only each 100 ms. Measured
# with six processes that wrote all the time: one look in five was lucky, and now and then a worker
# was silent for three seconds.
TURN_SECONDS = 0.02


class Report(NamedTuple):
    """The worker's own words for its row: its state, how many runs have ended in which way, and how
    many threads are busy.
    """

    state: str
    counters: Mapping[str, int]
    busy: int = 0


class Guarded(Protocol):
    """The side of the poller that a heartbeat looks at, from its own thread."""

    def report(self) -> Report:
        """The words for the worker's row."""

    def seconds_in_cycle(self) -> float:
        """Seconds for which the present cycle has been going on; 0 between two cycles."""

    def relieve(self) -> int:
        """Give back what waits unstarted, in place of a poller that hangs; how many rows."""

    @property
    def counts(self) -> Counts:
        """The counts of what has ended."""


class Heartbeat:
    """Joins the table of workers, renews the lease, and leaves as the worker's last act."""

    def __init__(
        self,
        config: WorkerConfig,
        membership: Membership,
        guarded: Guarded,
        wake: Callable[[], None],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """``wake`` is called after each heartbeat, which is news; ``post`` takes log lines."""
        self._post = post
        self._config = config
        self._membership = membership
        self._guarded = guarded
        self._wake = wake
        self._outage = Outage(config.using)
        self.rejected = Rejected(config.using, config.lease)
        self._recorder = Recorder(config.using, guarded.counts.take)
        self._has_one_writer = has_one_writer(config.using)
        # Since when others write, where there is one writer at a time.
        self._waiting_since: float | None = None
        self._stirred = Event()
        self._stopping = False
        self._leaving = False
        self._has_said_hung = False
        self._has_said_late = False
        self.joined = False
        self._thread = LastingThread(f"django_tasks-heartbeat-{config.using}", self._main)

    def start(self) -> None:
        self._thread.start()

    def ensure(self) -> None:
        """Replace the thread if it has died."""
        self._thread.ensure()

    def stop(self, *, leave: bool) -> None:
        """End; with ``leave``, take the worker out of the table first, however long it takes.

        Without, others will take it for dead and rescue what it holds.
        """
        self._leaving = leave
        self._stopping = True
        self._stirred.set()

    def write_counts(self, timeout: float = 0.0) -> None:
        """Have what is counted by now written at once, and wait for it up to ``timeout`` seconds.

        For any thread: this one writes them itself, after the heartbeats that are due. Where it has
        not joined, nothing was counted; where it has left, all is written.
        """
        if self.joined and self._thread.is_alive():
            written = self._recorder.hurry()
            self._stirred.set()
            written.wait(max(0.0, timeout))

    def is_without_database(self) -> bool:
        """Tell if it cannot join, or if the lease has passed without one. For any thread."""
        return self._outage.lasts() or (self.joined and not self._membership.is_valid())

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if ``timeout`` seconds were not enough."""
        return self._thread.join(timeout)

    def _bounds(self) -> Bounds:
        bounds = self._config.heartbeat_bounds
        return bounds._replace(lock_wait=TURN_SECONDS) if self._has_one_writer else bounds

    # The thread

    def _main(self) -> None:
        logs.send_through(self._post)
        take_connection(self._config.using, self._bounds())
        try:
            while not self._stopping:
                self._stirred.wait(self._guardedly(self.cycle))
                self._stirred.clear()
            while self._leaving and self.joined and not self.rejected.is_final:
                # Race: stop() may set it after the loop above has ended. Left set, it would have
                # each try follow the one before at once.
                self._stirred.clear()
                self._stirred.wait(self._guardedly(self._leave))
        finally:
            close_connections()

    def _guardedly(self, step: Callable[[], float]) -> float:
        """One step that survives whatever happens; returns how long to sleep."""
        try:
            keep_connection(self._config.using)
            delay = step()
        except Error as error:
            if self._is_waiting_for_its_turn(error):
                if self.joined:
                    self._note_late(error)
                return TURN_SECONDS / 2
            drop_connection(self._config.using)
            return self._after(error)
        except Exception:  # noqa: BLE001 - a defect must not end the heartbeats
            logs.heartbeat_failed(self._config.using)
            return AFTER_DEFECT
        self._outage.is_over()
        self._waiting_since = None
        return delay

    def cycle(self) -> float:
        """Join, or send one heartbeat if it is due; seconds until the next. Errors pass."""
        membership = self._membership
        if not self.joined:
            membership.join()
            self.joined = True
            self._wake()
        elif membership.seconds_to_beat() <= 0 or membership.seconds_to_judge() <= 0:
            self._beat()
            self._wake()
            self._watch_poller()
        # After the heartbeat, which owes nothing to it.
        self._recorder.write_if_due(membership.worker_id)
        waits = (membership.seconds_to_beat(), membership.seconds_to_judge())
        return max(0.0, min(*waits, self._recorder.seconds()))

    def _beat(self) -> None:
        report = self._guarded.report()
        is_ours = self._membership.beat(*report)
        self._has_said_late = False
        self.rejected.is_over()
        if not is_ours:
            # Others took us for dead: what was claimed is theirs, and we are somebody new.
            old = self._membership.worker_id
            new = self._membership.join()
            logs.worker_replaced(self._config.using, old, new)

    def _leave(self) -> float:
        if not self._recorder.finish(self._membership.worker_id):
            return HURRY_SECONDS
        self._membership.leave()
        self.joined = False
        return 0.0

    def _is_waiting_for_its_turn(self, error: Error) -> bool:
        """Tell if others are writing. Before it has joined, that is an outage after a while."""
        if not self._has_one_writer or not is_contention(self._config.using, error):
            return False
        if self._waiting_since is None:
            self._waiting_since = ticks()
        waited = ticks() - self._waiting_since
        return self.joined or waited < self._config.lease * RETRY_SHARE

    def _after(self, error: Error) -> float:
        """Seconds until another try. Before the worker has joined, nobody else tells of it."""
        longest = self._config.lease * RETRY_SHARE
        if self.rejected.note(error):
            self._wake()
            return longest
        if not self.joined:
            return min(longest, self._outage.delay_after(error, kept=0))
        self._note_late(error)
        return longest

    def _note_late(self, error: Error) -> None:
        """Say once, until the next heartbeat, that the lease has passed without one."""
        if not self._membership.is_valid() and not self._has_said_late:
            self._has_said_late = True
            logs.heartbeat_late(self._config.using, error)

    def _watch_poller(self) -> None:
        """A poller that hangs must not hide behind a healthy heartbeat."""
        seconds = self._guarded.seconds_in_cycle()
        if seconds <= self._config.lease:
            self._has_said_hung = False
            return
        if not self._has_said_hung:
            self._has_said_hung = True
            logs.poller_hangs(self._config.using, seconds)
        self._guarded.relieve()
