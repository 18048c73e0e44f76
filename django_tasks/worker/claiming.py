"""The choice of the next claims, and the sleep when there is nothing."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from math import inf
from random import uniform

from django_tasks.store import claim as store
from django_tasks.store.claim import Claimer
from django_tasks.store.connection import drop_connection
from django_tasks.store.errors import Kind, kind_of, was_cut_off
from django_tasks.store.finish import Ended
from django_tasks.store.lanes import Lane, next_due
from django_tasks.values.claimed import Claimed
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.executor import Executor
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.gates import Gates
from django_tasks.worker.lanes import Lanes, Portions, Troubled
from django_tasks.worker.membership import Membership
from django_tasks.worker.suspects import Suspects

# When due tasks are there and none could be had: somebody else is at them right now. Doubled each
# time up to the poll interval: a transaction may hold a due row locked for an hour.
CONTESTED_SECONDS = 0.05
MOST_DOUBLINGS = 16
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
        unsure: Callable[[], None] = lambda: None,
    ) -> None:
        """``unsure`` is called when a claim may have been stored although it has failed."""
        self._unsure = unsure
        self._config = config
        self._membership = membership
        self._executor = executor
        self._finisher = finisher
        self._lanes = Lanes(config)
        self._gates = Gates(config, membership)
        self._suspects = Suspects(config.using, self._gates, finisher)
        self._troubled = Troubled(config.using)
        # Of the suspects of a lane: those that cannot be claimed must not close it for the others.
        self._troubled_suspects = Troubled(config.using)
        self._portions = Portions(config.batch_size)
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
        self.nothing_due = False

    def has_had_enough(self) -> bool:
        """Tell if ``max_tasks`` have been claimed."""
        return self._left() <= 0

    def look_for_suspects(self) -> None:
        """At the next claim, look if a lane's head holds rows that were rescued twice."""
        self._suspects.look_soon()

    def note_ends(self, ended: list[Ended]) -> None:
        """Runs have ended here, and their ends have been written."""
        self._gates.note_ends(ended)

    def note_given_back(self, claims: list[Claimed]) -> None:
        """Claims that no thread has started go back: they have used up no start of a rate."""
        self._gates.note_given_back(claims)

    def claim(self, *, careful: bool) -> float:
        """Claim what is due and fits; returns the seconds until there may be more to do."""
        room = self._room()
        if room == 0 or not self._membership.is_valid():
            # The end of a run wakes us sooner, and so does a heartbeat. Without a lease nothing may
            # start: what is claimed would be given back at once, and claimed again.
            return self._config.poll_interval
        now = self._membership.clock.now()
        foreseen = self._foreseen(now + timedelta(seconds=self._lead))
        now = max([now, *(lane.first for lane in foreseen)])
        lanes = foreseen or self._recent_lanes(now)
        due = [lane for lane in lanes if lane.first <= now]
        self.nothing_due = not due
        due = self._open(due)
        if not due:
            # Lanes that we have known for a while are no reason to sleep.
            again, self._full = self._full and not self.nothing_due, False
            return 0.0 if again else self._until_first(lanes)
        taken = self._claim_suspect(now)
        taken += self._claim_from(due, now, room - taken, careful)
        due = self._open(due)
        # Once is nothing: others were quicker. Twice may be because only suspects are left. With
        # nothing still open nobody was quicker: limits were reached.
        self._in_vain = 0 if taken else self._in_vain + bool(due)
        self._suspects.look(due, now, self._in_vain)
        if taken or foreseen or not due:
            return 0.0
        return self._until_contested(lanes, due, now)

    def _open(self, lanes: list[Lane]) -> list[Lane]:
        gates, troubled = self._gates, self._troubled
        return [lane for lane in lanes if gates.is_open(lane) and troubled.is_open(lane)]

    def _claim_suspect(self, now: datetime) -> int:
        lane, troubled = self._suspects.take_lane(), self._troubled_suspects
        if lane is None or not troubled.is_open(lane):
            return 0
        claim = partial(self._suspects.claim, self._claimer(), lane, now)
        claims = self._claim_unless_troubled(troubled, lane, claim)
        self._start(claims, first=True)
        return len(claims)

    def _claim_from(self, due: list[Lane], now: datetime, room: int, careful: bool) -> int:
        taken, self._full = 0, True
        claimer = self._claimer()
        for lane in due:
            if taken >= room:
                break
            if not self._gates.is_open(lane):
                continue
            limit = min(room - taken, self._portions.of(lane))
            begun = self._membership.clock.monotonic()
            claim = partial(self._claim_portion, claimer, lane, now, limit, careful)
            claims = self._claim_unless_troubled(self._troubled, lane, claim)
            took = self._membership.clock.monotonic() - begun
            self._lead = min(LONGEST_LEAD, max(took, LEAD_KEPT * self._lead))
            self._start(claims, first=self._gates.has_limit(lane))
            taken += len(claims)
            if len(claims) < limit and self._gates.is_open(lane):
                self._full, self._known_lanes = False, []
        return taken

    def _claim_unless_troubled(
        self, troubled: Troubled, lane: Lane, claim: Callable[[], list[Claimed]]
    ) -> list[Claimed]:
        """Claim from one lane; an error that is this lane's own must not stop the others.

        Race: the claim was committed before the error came, with its answer or over it. Then its
        rows are strays.
        """
        try:
            claims = claim()
        except Exception as error:
            kind = kind_of(error, using=self._config.using)
            if kind in (Kind.WORLD, Kind.CONTENTION):
                raise
            self._unsure()
            troubled.note(lane, error)
            if kind is Kind.UNKNOWN:
                # Perhaps this session's own fault, such as a plan that it keeps and a migration has
                # made wrong. A ping would find nothing.
                drop_connection(self._config.using)
            return []
        troubled.forget(lane)
        return claims

    def _claim_portion(
        self, claimer: Claimer, lane: Lane, now: datetime, most: int, careful: bool
    ) -> list[Claimed]:
        """Claim from one lane, and note how much of it goes into one statement."""
        try:
            claims = self._claim_lane(claimer, lane, now, most, careful)
        except Exception as error:
            if was_cut_off(error, using=self._config.using):
                self._portions.halve(lane, most)
            raise
        if claims:
            self._portions.grow(lane)
        return claims

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

    def _start(self, claims: list[Claimed], *, first: bool) -> None:
        """Hand over what was claimed, perhaps a moment before it is due: its thread waits for that.

        Nothing here can fail or wait: a claim that is held and not handed over would never start.
        """
        if claims:
            # Held before they start: an end must find its claim.
            self._finisher.hold(claims)
            self._claimed += len(claims)
            self._executor.submit(claims, first=first)

    def _room(self) -> int:
        return max(0, min(self._executor.room(self._config.batch_size), self._left()))

    def _left(self) -> int:
        """The number of tasks that may still be claimed; those given back do not count."""
        if self._config.max_tasks is None:
            return self._config.batch_size + self._config.threads
        started = self._claimed - self._finisher.counters["given back"]
        return self._config.max_tasks - started

    def _claimer(self) -> Claimer:
        membership = self._membership
        return Claimer(membership.worker_id, max(1, len(membership.living())), membership.rank())

    # Lanes

    def _foreseen(self, soon: datetime) -> list[Lane]:
        """Lanes that we have slept for, once: known without a look, so a statement sooner."""
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
        now, gates, troubled = self._membership.clock.now(), self._gates, self._troubled
        seconds = (
            max(
                (lane.first - now).total_seconds() - self._lead,
                gates.closed_for(lane),
                troubled.closed_for(lane),
            )
            for lane in lanes
        )
        return min(seconds, default=self._config.poll_interval) + self._step_aside()

    def _until_contested(self, lanes: list[Lane], due: list[Lane], now: datetime) -> float:
        """Seconds until another look at due tasks that somebody else has, or holds locked."""
        doubled = CONTESTED_SECONDS * 2.0 ** min(self._in_vain - 1, MOST_DOUBLINGS)
        pause = min(uniform(0.5, 1.5) * doubled, self._config.poll_interval)
        if self._in_vain > 1:
            pause = min(pause, self._until_later(lanes, due, now))
        return max(0.0, pause) + self._step_aside()

    def _until_later(self, lanes: list[Lane], due: list[Lane], now: datetime) -> float:
        """Seconds until something else is due: in other lanes, or behind the rows of these."""
        later = [lane.first for lane in lanes if lane.first > now]
        for lane in due:
            if moment := next_due(lane, now, using=self._config.using):
                later.append(moment)
        clock = self._membership.clock
        return min((clock.seconds_to(each) - self._lead for each in later), default=inf)

    def _step_aside(self) -> float:
        """Seconds to come later than the others, if they were quicker the last time: all workers
        wake up for the same task, and a thousand that do would have the database do little else."""
        rivals = len(self._membership.living()) - 1
        return uniform(0, max(0, rivals) * ASIDE_SECONDS) if self._in_vain else 0.0
