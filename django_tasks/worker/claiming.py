"""What to claim next, and how long to sleep when there is nothing."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from math import isinf
from random import uniform
from typing import NamedTuple

from django_tasks import logs
from django_tasks.claimed import Claimed
from django_tasks.handlers import cluster_limit
from django_tasks.rates import Limit
from django_tasks.registry import get_task_handlers, handler_for
from django_tasks.store import claim as store
from django_tasks.store import gates
from django_tasks.store.claim import Claimer, Lane
from django_tasks.store.finish import Ended
from django_tasks.store.pauses import Scope
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.executor import Executor
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.membership import Membership

# When due tasks are there and none could be had: somebody else is at them right now.
CONTESTED_SECONDS = 0.05
# How much later a worker that came in vain wakes up the next time, for each of the others.
ASIDE_SECONDS = 0.001
# The claim of a task that is known to be due soon is sent as long before as claims have taken of
# late (a commit that waits for the disk: 1 to 3 ms), but never longer than this: meanwhile the task
# counts as running for whoever wants to cancel it.
LONGEST_LEAD = 0.005
# How much of the lead is kept after a claim that was quicker.
LEAD_KEPT = 0.9
# As long as claims come back full, lanes are looked for this often: with a backlog each look costs
# a twentieth of the work, and a more urgent task can wait for a moment.
LANES_SECONDS = 0.02


class Closed(NamedTuple):
    """The gate of a limited code: when to come again, and whether an end here is a reason to."""

    until: float
    by_runs: bool


class Claiming:
    """Claims for one worker. Used by the poller thread alone."""

    def __init__(
        self,
        config: WorkerConfig,
        membership: Membership,
        executor: Executor,
        finisher: Finisher,
    ) -> None:
        self._config = config
        self._membership = membership
        self._executor = executor
        self._finisher = finisher
        self._claimed = 0
        self._known_unknown: set[str] = set()
        # What the last look found and has not been used up, when that was, and whether the last
        # claim was full.
        self._known_lanes: list[Lane] = []
        self._looked = float("-inf")
        self._full = False
        # What was paused at the last look.
        self._pauses: frozenset[Scope] = frozenset()
        # Codes whose limit was reached when we last came.
        self._closed: dict[str, Closed] = {}
        # How long before a task is due its claim is sent, in seconds.
        self._lead = 0.0
        # How many claims in a row have brought nothing of what was due.
        self._in_vain = 0
        # Rows that must run alone: whether to look for some, where some were seen and when, and
        # whether one is running now.
        self._look = False
        self._suspects: Lane | None = None
        self._suspects_since = 0.0
        self._alone = False
        self.nothing_due = False

    def has_had_enough(self) -> bool:
        """Whether ``max_tasks`` have been claimed."""
        return self._left() <= 0

    def look_for_suspects(self) -> None:
        """At the next claim, look whether a lane's head holds rows that must run alone."""
        self._look = True

    def note_ends(self, ended: list[Ended]) -> None:
        """Come again for a code of which a run has ended here; its end must have been written."""
        for claimed, _ in ended if self._closed else ():
            closed = self._closed.get(claimed.biz_code)
            if closed and closed.by_runs:
                del self._closed[claimed.biz_code]

    def claim(self, *, careful: bool) -> float:
        """Claim what is due and fits; returns the seconds until there may be more to do."""
        self._alone = self._alone and not self._is_idle()
        room = self._room()
        if room == 0 or self._alone:
            return self._config.poll_interval  # the end of a run wakes us sooner
        now = self._membership.clock.now()
        foreseen = self._foreseen(now + timedelta(seconds=self._lead))
        now = max([now, *(lane.first for lane in foreseen)])
        lanes = foreseen or self._recent_lanes(now)
        due = [lane for lane in lanes if lane.first <= now]
        self.nothing_due = not due
        due = [lane for lane in due if self._is_open(lane)]
        if not due:
            # Lanes that we have known for a while are no reason to sleep.
            again, self._full = self._full and not self.nothing_due, False
            return 0.0 if again else self._until_first(lanes)
        if (alone := self._suspects) and self._is_open(alone) and self._may_claim_alone():
            return self._claim_alone(alone, now)
        taken = self._claim_from(due, now, room, careful)
        due = [lane for lane in due if self._is_open(lane)]
        # Once is nothing: others were quicker. Twice may be because only suspects are left. With
        # nothing still open nobody was quicker: limits were reached.
        self._in_vain = 0 if taken else self._in_vain + bool(due)
        if due and (self._look or self._in_vain > 1):
            self._note_suspects(due, now)
        if taken or foreseen or not due:
            return 0.0
        return uniform(0.5, 1.5) * CONTESTED_SECONDS + self._step_aside()

    def _claim_from(self, due: list[Lane], now: datetime, room: int, careful: bool) -> int:
        taken, self._full = 0, True
        claimer = self._claimer()
        for lane in due:
            if taken >= room:
                break
            if not self._is_open(lane):
                continue
            limit = min(room - taken, self._config.batch_size)
            begun = self._membership.clock.monotonic()
            claims = self._claim_lane(claimer, lane, now, limit, careful)
            took = self._membership.clock.monotonic() - begun
            self._lead = min(LONGEST_LEAD, max(took, LEAD_KEPT * self._lead))
            self._start(claims, now)
            taken += len(claims)
            if len(claims) < limit and self._is_open(lane):
                self._full, self._known_lanes = False, []
        return taken

    def _start(self, claims: list[Claimed], now: datetime) -> None:
        """Start what was claimed as due at ``now``, once it is."""
        # Held before they start: an end must find its claim.
        self._finisher.hold(claims)
        self._claimed += len(claims)
        if claims:
            self._membership.clock.wait_until(now)
            self._executor.submit(claims)

    def _room(self) -> int:
        return max(0, min(self._executor.room(self._config.batch_size), self._left()))

    def _left(self) -> int:
        """How many more tasks may be claimed; what was given back unstarted does not count."""
        if self._config.max_tasks is None:
            return self._config.batch_size + self._config.threads
        started = self._claimed - self._finisher.counters["given back"]
        return self._config.max_tasks - started

    def _is_idle(self) -> bool:
        """Whether this process holds no claim at all."""
        return self._executor.is_idle() and self._finisher.is_empty()

    def _claimer(self) -> Claimer:
        membership = self._membership
        return Claimer(membership.worker_id, max(1, len(membership.living())), membership.rank())

    # Limits of a code in the whole cluster

    def _limit(self, lane: Lane) -> Limit | None:
        handler = handler_for(lane.biz_code)
        return cluster_limit(handler) if handler else None

    def _claim_lane(
        self, claimer: Claimer, lane: Lane, now: datetime, most: int, careful: bool
    ) -> list[Claimed]:
        using, limit = self._config.using, self._limit(lane)
        if limit is None:
            return store.claim(claimer, lane, now, most, using=using, careful=careful)
        # What waits in our buffer counts as running: no more than we could run ourselves.
        most = min(most, self._config.threads)
        return self._pass_gate(
            lane,
            now,
            limit,
            # Carefully: whoever waits for a row at the gate holds up everybody.
            lambda free: store.claim(
                claimer, lane, now, min(free, most), using=using, careful=True
            ),
        )

    def _pass_gate(
        self, lane: Lane, now: datetime, limit: Limit, take: Callable[[int], list[Claimed]]
    ) -> list[Claimed]:
        claims, closed_for = gates.pass_gate(
            lane.biz_code, limit, now, take, using=self._config.using
        )
        self._closed.pop(lane.biz_code, None)
        if closed_for:
            by_runs = isinf(closed_for)
            # Runs of other processes end unheard.
            seconds = self._config.poll_interval if by_runs else closed_for
            until = self._membership.clock.monotonic() + seconds
            self._closed[lane.biz_code] = Closed(until, by_runs)
        return claims

    def _is_open(self, lane: Lane) -> bool:
        return not self._closed or self._closed_for(lane) <= 0

    def _closed_for(self, lane: Lane) -> float:
        """Seconds until it is worth while to come to a lane's gate again; 0 or less: now."""
        closed = self._closed.get(lane.biz_code)
        return closed.until - self._membership.clock.monotonic() if closed else 0.0

    # Lanes

    def _foreseen(self, soon: datetime) -> list[Lane]:
        """What we have slept for: known without a look, so it starts a statement sooner. Once."""
        if self._full:
            return []
        known, self._known_lanes = self._known_lanes, []
        return [lane for lane in known if lane.first <= soon and self._is_open(lane)]

    def _recent_lanes(self, now: datetime) -> list[Lane]:
        tick = self._membership.clock.monotonic()
        if not self._full or tick - self._looked > LANES_SECONDS:
            self._known_lanes, self._looked = self._lanes(now), tick
        return self._known_lanes

    def _lanes(self, now: datetime) -> list[Lane]:
        """The lanes that this worker serves and that are not paused."""
        lanes, pauses = store.look(using=self._config.using)
        self._tell_pauses(pauses)
        handlers = get_task_handlers()
        for lane in lanes:
            if lane.biz_code not in handlers and lane.first <= now:
                self._warn_of_unknown(lane, now)
        queues, codes = self._config.queues, self._config.codes
        return [
            lane
            for lane in lanes
            if lane.biz_code in handlers
            and (not queues or lane.queue in queues)
            and (not codes or lane.biz_code in codes)
        ]

    def _tell_pauses(self, pauses: frozenset[Scope]) -> None:
        """Say what has begun and what has ended since the last look."""
        if pauses != self._pauses:
            for scope in sorted(self._pauses - pauses):
                logs.resumed(self._config.using, *scope)
            for scope in sorted(pauses - self._pauses):
                logs.paused(self._config.using, *scope)
            self._pauses = pauses

    def _warn_of_unknown(self, lane: Lane, now: datetime) -> None:
        """Never claimed, never deleted: a newer worker will know the code. Said once."""
        if lane.biz_code not in self._known_unknown:
            self._known_unknown.add(lane.biz_code)
            due = store.count_due(lane, now, using=self._config.using)
            logs.unknown_code(self._config.using, lane.biz_code, due)

    def _until_first(self, lanes: list[Lane]) -> float:
        now = self._membership.clock.now()
        seconds = (
            max((lane.first - now).total_seconds() - self._lead, self._closed_for(lane))
            for lane in lanes
        )
        return min(seconds, default=self._config.poll_interval) + self._step_aside()

    def _step_aside(self) -> float:
        """Seconds to come later than the others, if they were quicker the last time: all workers
        wake up for the same task, and a thousand that do would have the database do little else."""
        rivals = len(self._membership.living()) - 1
        return uniform(0, max(0, rivals) * ASIDE_SECONDS) if self._in_vain else 0.0

    # Rows that must run alone: twice their worker died with them in hand. If such a row is the
    # killer, it takes nobody along now; if it is not, this proves it.

    def _note_suspects(self, due: list[Lane], now: datetime) -> None:
        self._look = False
        seen = (lane for lane in due if store.has_suspects(lane, now, using=self._config.using))
        lane = next(seen, None)
        if lane and not self._suspects:
            self._suspects_since = self._membership.clock.monotonic()
        self._suspects = lane

    def _may_claim_alone(self) -> bool:
        return self._is_idle() or self._must_drain()

    def _must_drain(self) -> bool:
        """Whether to stop claiming until this process is idle.

        Only one worker is to do that: the oldest at once, the next ones a heartbeat later each,
        if the row is still there.
        """
        patience = self._membership.rank() * self._config.heartbeat_interval
        return self._membership.clock.monotonic() - self._suspects_since >= patience

    def _claim_alone(self, lane: Lane, now: datetime) -> float:
        if not self._is_idle():
            return self._config.poll_interval
        take = partial(store.claim_alone, self._claimer(), lane, now, using=self._config.using)
        limit = self._limit(lane)
        claims = self._pass_gate(lane, now, limit, lambda _: take()) if limit else take()
        self._suspects = None
        self._alone = bool(claims)
        self._start(claims, now)
        return 0.0
