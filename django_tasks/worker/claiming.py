"""What to claim next, and how long to sleep when there is nothing."""

from datetime import datetime, timedelta
from functools import partial
from random import uniform

from django_tasks.claimed import Claimed
from django_tasks.store import claim as store
from django_tasks.store.claim import Claimer, Lane
from django_tasks.store.finish import Ended
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.executor import Executor
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.gates import Gates
from django_tasks.worker.lanes import Lanes
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
# As long as claims come back full, a more urgent task can wait for a moment: this long between two
# looks for lanes; and where looks take long (PostgreSQL's walk over what was deleted, until it is
# vacuumed) as long as keeps them to this share of the time, but no longer than a fifth of a second.
LANES_SECONDS = 0.02
LANES_SHARE = 0.02
LONGEST_LANES_SECONDS = 0.2


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
        self._lanes = Lanes(config)
        self._gates = Gates(config, membership)
        self._claimed = 0
        # What the last look found and has not been used up, when to look again, and whether the
        # last claim was full.
        self._known_lanes: list[Lane] = []
        self._next_look = float("-inf")
        self._full = False
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
        """Runs have ended here, and their ends have been written."""
        self._gates.note_ends(ended)

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
        due = [lane for lane in due if self._gates.is_open(lane)]
        if not due:
            # Lanes that we have known for a while are no reason to sleep.
            again, self._full = self._full and not self.nothing_due, False
            return 0.0 if again else self._until_first(lanes)
        if (alone := self._suspects) and self._gates.is_open(alone) and self._may_claim_alone():
            return self._claim_alone(alone, now)
        taken = self._claim_from(due, now, room, careful)
        due = [lane for lane in due if self._gates.is_open(lane)]
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
            if not self._gates.is_open(lane):
                continue
            limit = min(room - taken, self._config.batch_size)
            begun = self._membership.clock.monotonic()
            claims = self._claim_lane(claimer, lane, now, limit, careful)
            took = self._membership.clock.monotonic() - begun
            self._lead = min(LONGEST_LEAD, max(took, LEAD_KEPT * self._lead))
            self._start(claims, now)
            taken += len(claims)
            if len(claims) < limit and self._gates.is_open(lane):
                self._full, self._known_lanes = False, []
        return taken

    def _claim_lane(
        self, claimer: Claimer, lane: Lane, now: datetime, most: int, careful: bool
    ) -> list[Claimed]:
        using = self._config.using
        if not self._gates.has_limit(lane):
            return store.claim(claimer, lane, now, most, using=using, careful=careful)
        # What waits in our buffer counts as running: no more than we could run ourselves. And
        # carefully: whoever waits for a row at the gate holds up everybody.
        most = min(most, self._config.threads)
        return self._gates.claim(
            lane,
            now,
            lambda free: store.claim(
                claimer, lane, now, min(free, most), using=using, careful=True
            ),
        )

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

    # Lanes

    def _foreseen(self, soon: datetime) -> list[Lane]:
        """What we have slept for: known without a look, so it starts a statement sooner. Once."""
        if self._full:
            return []
        known, self._known_lanes = self._known_lanes, []
        return [lane for lane in known if lane.first <= soon and self._gates.is_open(lane)]

    def _recent_lanes(self, now: datetime) -> list[Lane]:
        clock = self._membership.clock
        begun = clock.monotonic()
        if not self._full or begun > self._next_look:
            self._known_lanes = self._lanes.look(now)
            ended = clock.monotonic()
            fair = (ended - begun) / LANES_SHARE
            self._next_look = ended + min(LONGEST_LANES_SECONDS, max(LANES_SECONDS, fair))
        return self._known_lanes

    def _until_first(self, lanes: list[Lane]) -> float:
        now = self._membership.clock.now()
        seconds = (
            max((lane.first - now).total_seconds() - self._lead, self._gates.closed_for(lane))
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
        if self._gates.has_limit(lane):
            claims = self._gates.claim(lane, now, lambda _: take(careful=True))
        else:
            claims = take()
        self._suspects = None
        self._alone = bool(claims)
        self._start(claims, now)
        return 0.0
