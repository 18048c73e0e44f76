"""A worker's place among the living: its row, its lease, its clock and its peers."""

from collections.abc import Callable, Mapping
from datetime import datetime
from math import inf
from typing import NamedTuple

from django_tasks import doorbell
from django_tasks.clock import Clock, ClockReading
from django_tasks.hostclock import ticks, utc_now
from django_tasks.store import workers
from django_tasks.worker.config import WorkerConfig

# Seconds to the second heartbeat. The next ones come at an age of four times as much each, until
# that is a third of the lease.
FIRST_INTERVAL = 0.25
# How much a second of another clock may differ from one of ours: the database's has jumped if it is
# more. (Clocks that are being set right run faster or slower by a two-thousandth.)
CLOCK_DRIFT = 0.002
# How many of the oldest workers look at the very moment when somebody's lease ends. All the others
# look at their next heartbeat.
FEW = 3


class Look(NamedTuple):
    """One look at all workers: the database's time, and our own before it was asked and after it
    had answered."""

    utc: datetime
    asked: float
    answered: float

    @property
    def took(self) -> float:
        return self.answered - self.asked


class Membership:
    """Owned by the poller thread; others only ask ``is_valid``, ``is_drawn`` and ``clock``.

    The lease counts from *before* a heartbeat was sent, so that this worker stops believing in
    itself a little before anybody else does.
    """

    def __init__(self, config: WorkerConfig, ticks: Callable[[], float] = ticks) -> None:
        self._config = config
        self._registration = config.registration()
        self._beaten = self._unbroken_since = self._joined = float("-inf")
        self.worker_id = 0
        self.clock = Clock(ClockReading(utc_now(), ticks()), ticks)
        self.peers: list[workers.Peer] = []
        # Of each peer, the count of its heartbeats and when the last one was, by our clock.
        self._seen: dict[int, tuple[int, float]] = {}
        self._look: Look | None = None
        self._judge_at = inf
        self._somebody_left = False

    @property
    def name(self) -> str:
        return self._registration.name

    def can_be_rung_at(self, doorbell: str) -> None:
        """To be known before it joins: where others can wake this worker."""
        self._registration = self._registration._replace(doorbell=doorbell)

    def join(self) -> int:
        """Enter the table of workers, anew if need be; returns the new worker id."""
        asked = self.clock.monotonic()
        self.clock.set(workers.read_clock(using=self._config.using))
        self.worker_id = workers.register(
            self._registration, self.clock.now(), using=self._config.using
        )
        self._beaten = self._unbroken_since = self._joined = asked
        return self.worker_id

    def beat(self, state: str, counters: Mapping[str, int]) -> bool:
        """Renew the lease and look who else lives; False when others have taken us for dead."""
        asked = self.clock.monotonic()
        reading, self.peers = workers.roll_call(using=self._config.using)
        self.clock.set(reading)
        self._watch(Look(reading.utc, asked, self.clock.monotonic()))
        renewed = workers.beat(
            self.worker_id, reading.utc, state, counters, using=self._config.using
        )
        if renewed:
            # Until it was answered: a database that hangs leaves a gap as well.
            answered = self.clock.monotonic()
            if answered - self._beaten > self._config.lease / 2:
                self._unbroken_since = answered
            self._beaten = asked
        return renewed

    def judged(self) -> None:
        """Whoever could be judged by the last look has been; now for the next one.

        Not before: if the database failed in between, the moment would have passed.
        """
        if self._look is None:
            return
        now = self._look.answered
        ends = [end for end in map(self._end_of, self._others()) if end > now]
        older = [peer for peer in self._others() if peer.id < self.worker_id]
        # Those who are late themselves will not look.
        at_work = sum(now - self._seen[peer.id][1] < peer.lease / 2 for peer in older)
        self._judge_at = min(ends, default=inf) if at_work < FEW else inf

    def leave(self) -> None:
        """Leave the table: the very last thing a worker does."""
        workers.remove(self.worker_id, using=self._config.using)

    def seconds_to_beat(self) -> float:
        # A young worker looks around more often: those that start together do not know each other
        # yet, and would claim as if each was alone.
        age = self._beaten - self._joined
        interval = min(self._config.heartbeat_interval, max(FIRST_INTERVAL, 3 * age))
        return self._beaten + interval - self.clock.monotonic()

    def seconds_to_judge(self) -> float:
        """Seconds until somebody who has missed heartbeats may be taken for dead."""
        return self._judge_at - self.clock.monotonic()

    def is_valid(self) -> bool:
        """Whether nobody can have taken this worker for dead yet.

        Once it is not, no task is started any more and claims are given up, *before* others take
        them: their patience cannot run out before ours.
        """
        return self.clock.monotonic() < self._beaten + self._config.lease

    def may_rescue(self) -> bool:
        """Whether to judge others: only after a whole lease of heartbeats without a gap.

        When a database comes back after an outage everybody looks dead, and nobody is. Half a lease
        is a gap: together with the third that lies between heartbeats it could be a whole one.
        """
        return self.clock.monotonic() - self._unbroken_since >= self._config.lease

    def living(self) -> list[workers.Peer]:
        """The workers that seem to be at work, this one among them."""
        now = self.clock.now()
        return [peer for peer in self.peers if peer.looks_alive(now)]

    def dead(self) -> list[workers.Peer]:
        """Peers that have not beaten for their whole lease, and ours.

        Measured by our monotonic clock: neither their clock, nor the database's jumping, nor an
        hour that comes twice makes anybody look dead. And since we never take their last heartbeat
        for older than it is, their own belief in it has ended before ours. Our own lease counts
        too, because we notice no outage that is much shorter.
        """
        tick = self.clock.monotonic()
        return [peer for peer in self._others() if tick > self._end_of(peer)]

    def somebody_left(self) -> bool:
        """Whether a peer has gone since this was last asked: stopped, or taken for dead."""
        left, self._somebody_left = self._somebody_left, False
        return left

    def _others(self) -> list[workers.Peer]:
        return [peer for peer in self.peers if peer.id != self.worker_id]

    def _end_of(self, peer: workers.Peer) -> float:
        """When a peer will be dead unless it sends a heartbeat, by our monotonic clock."""
        lease = max(peer.lease, self._config.lease)
        return self._seen[peer.id][1] + lease * (1 + CLOCK_DRIFT)  # its seconds may be longer

    def _watch(self, look: Look) -> None:
        seen = {}
        for peer in self.peers:
            known = self._seen.get(peer.id)
            if known is None or known[0] != peer.beats:
                known = (peer.beats, self._last_beat(peer, look))
            seen[peer.id] = known
        self._somebody_left = self._somebody_left or not self._seen.keys() <= seen.keys()
        self._seen = seen
        self._look = look

    def _last_beat(self, peer: workers.Peer, now: Look) -> float:
        """When a peer whose count has moved sent that heartbeat, by our clock, or later.

        It was after our last look, so the database's clock tells how long ago it was, if that has
        run evenly since: if not, or if workers may have read the clocks of different nodes, it
        counts from now.
        """
        before = self._look
        if before is None or not workers.share_a_clock(using=self._config.using):
            return now.answered
        between = now.answered - before.answered
        doubt = now.took + before.took + CLOCK_DRIFT * between
        if abs((now.utc - before.utc).total_seconds() - between) > doubt:
            return now.answered
        age = (now.utc - peer.heartbeat).total_seconds() - doubt
        return now.answered - age if 0 < age < between else now.answered

    def rank(self) -> int:
        """How many living workers are older than this one."""
        return sum(peer.id < self.worker_id for peer in self.living())

    def is_drawn(self, lot: float) -> bool:
        """Whether a hint with this lot (from 0, below 1) is to wake this worker."""
        living = max(1, len(self.living()))
        return (self.rank() - int(lot * living)) % living < doorbell.FEWEST
