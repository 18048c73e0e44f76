"""One cycle of a worker's bookkeeping: keep the lease, write how runs ended, claim what is due.

While one statement is under way, ends and free threads pile up and go together in the next: that
is all the batching there is, and it adds no waiting.
"""

from random import uniform
from time import monotonic

from django_tasks import logs, own_rows
from django_tasks.claimed import Claimed
from django_tasks.clock import Tick
from django_tasks.recurrence import timeout_of
from django_tasks.registry import handler_for
from django_tasks.running import RunningTask
from django_tasks.store.connection import keep_connection
from django_tasks.store.finish import is_cancelled
from django_tasks.worker import rescuer, stuck
from django_tasks.worker.claiming import Claiming
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.executor import STALE_SECONDS, Executor
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.membership import Membership
from django_tasks.worker.pruner import Pruner

# Strays and orphans are looked for at every sixth heartbeat, and sooner where there is a reason.
TIDY_EVERY = 6
# For so many heartbeats after a lost answer there may be strays.
UNSURE_BEATS = 3
# Idle workers sleep up to a fifth longer than asked for, so that they do not look all at once.
LONGEST_SLEEP = 1.2
TALLY_SECONDS = 60.0
# How soon to look again whether a row that somebody holds locked is free.
LOCKED_SECONDS = 0.05


class Poller:
    """Used by one thread. ``run_once`` returns the seconds until it wants to be called again."""

    def __init__(self, config: WorkerConfig, membership: Membership, executor: Executor) -> None:
        self._config = config
        self._membership = membership
        self._executor = executor
        self._finisher = Finisher(config, membership.name)
        self._claiming = Claiming(config, membership, executor, self._finisher)
        self._pruner = Pruner(config.using, membership)
        self._planned = False
        self._careful = False
        self._quiet = False
        self._beats = 0
        self._unsure_beats = 0
        self._warned: set[tuple[int, int]] = set()
        self._tallied = (monotonic(), self._finisher.counters.copy())
        self.finished = False

    def run_once(self) -> float:
        """One cycle. Database errors pass; whatever was under way is kept or found again."""
        careful, self._careful = self._careful, False
        keep_connection(self._config.using, self._config.lock_wait)
        self._keep_lease()
        if not self._planned:
            own_rows.keep(self._membership.clock.now(), using=self._config.using)
            self._planned = True
        ended = self._executor.collect()
        self._finisher.add(ended)
        # Careful for as long as somebody holds a row that we want: a plain cycle would wait for it.
        self._careful = self._finisher.write(self._membership.clock.now(), careful=careful)
        self._claiming.note_ends(ended)
        if self._quiet:
            return self._wind_down()
        if self._executor.is_stale():
            self._finisher.give_back(self._executor.take_back())
            return 0.0
        delay = self._claiming.claim(careful=careful)
        self._pruner.prune_if_due()
        if self._has_nothing_more():
            self.quieten()
            return 0.0
        return self._bounded(delay)

    def quieten(self) -> None:
        """Claim no more; ``finished`` turns true when everything that was claimed has ended."""
        self._quiet = True

    def contended(self) -> None:
        """Somebody else was in the way of the last cycle: step over locked rows in the next."""
        self._careful = True

    def unsure(self) -> None:
        """An answer of the database was lost: a claim may be ours without our knowing."""
        self._unsure_beats = UNSURE_BEATS

    def unwritten(self) -> int:
        """Ends that are still to be written."""
        return self._finisher.unwritten()

    def running(self) -> list[Claimed]:
        """What runs now."""
        return [claimed for claimed, _ in self._executor.running()]

    def runs(self) -> int:
        """How many runs have ended, well or not."""
        return self._finisher.runs()

    # The lease

    def _keep_lease(self) -> None:
        membership = self._membership
        if membership.seconds_to_beat() > 0 and membership.seconds_to_judge() > 0:
            return
        state = "stopping" if self._quiet else "running"
        if not membership.beat(state, self._finisher.counters):
            self._start_over()
        self._beats += 1
        thorough = self._unsure_beats > 0 or self._beats % TIDY_EVERY == 0
        rescuer.rescue_from_dead(membership, using=self._config.using, thorough=thorough)
        membership.judged()
        if thorough:
            self._give_back_strays()
        self._claiming.look_for_suspects()
        self._warn_of_overdue()
        self._tally()

    def _start_over(self) -> None:
        """Others took us for dead: what we had claimed is theirs, and we are somebody new."""
        self._finisher.give_back(self._executor.take_back())
        old = self._membership.worker_id
        new = self._membership.join()
        logs.worker_replaced(self._config.using, old, new)

    def _give_back_strays(self) -> None:
        self._unsure_beats = max(0, self._unsure_beats - 1)
        held = self._finisher.held_ids(self._membership.worker_id)
        rescuer.give_back_strays(self._membership, held, using=self._config.using)

    def _warn_of_overdue(self) -> None:
        running = self._executor.running()
        keys = {(claimed.worker_id, claimed.id) for claimed, _ in running}
        self._warned &= keys
        for claimed, started in running:
            handler = handler_for(claimed.biz_code)
            limit = timeout_of(claimed, handler) if handler else None
            key = (claimed.worker_id, claimed.id)
            seconds = monotonic() - started
            if handler and limit is not None and seconds > limit and key not in self._warned:
                self._warned.add(key)
                logs.still_running(claimed, seconds, limit)
                began = Tick(self._membership.clock.reading, started)
                task = RunningTask(claimed, self._config.using, began, is_cancelled)
                stuck.report(handler, task, seconds)

    def _tally(self) -> None:
        since, before = self._tallied
        if monotonic() - since >= TALLY_SECONDS:
            counters = self._finisher.counters
            if news := counters - before:
                logs.tally(self._config.using, news, monotonic() - since)
            self._tallied = (monotonic(), counters.copy())

    # Stopping

    def _has_nothing_more(self) -> bool:
        """Whether a worker that was to stop by itself has come to that point."""
        idle = self._executor.is_idle() and self._finisher.is_empty()
        emptied = self._config.until_empty and self._claiming.nothing_due
        return idle and (emptied or self._claiming.has_had_enough())

    def _wind_down(self) -> float:
        """Quiet: unstarted claims go back, the rest ends, and only then the worker's row goes."""
        self._finisher.give_back(self._executor.take_back())
        if not self._finisher.is_empty():
            return LOCKED_SECONDS if self._careful else 0.0
        if self._executor.is_idle():
            self._membership.leave()
            self.finished = True
            return 0.0
        return self._bounded(self._config.poll_interval)

    def _bounded(self, delay: float) -> float:
        if self._executor.has_waiting():
            delay = min(delay, STALE_SECONDS)
        longest = self._config.poll_interval * uniform(1.0, LONGEST_SLEEP)
        # A heartbeat may be a little late, and so share the cycle of a poll.
        beat = self._membership.seconds_to_beat() + self._config.heartbeat_interval / 8
        return max(0.0, min(delay, longest, beat, self._membership.seconds_to_judge()))
