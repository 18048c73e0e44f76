"""A worker's place among the living: its row, its lease, its clock and its peers."""

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from django_tasks.clock import Clock, ClockReading
from django_tasks.handlers.registry import get_task_handlers, revision
from django_tasks.host.clocks import ticks, utc_now
from django_tasks.host.memory import resident_memory
from django_tasks.store import workers
from django_tasks.store.clock import read_clock, share_a_clock
from django_tasks.store.workers import Registration, Signs
from django_tasks.wakeup.doorbell import FEWEST_WOKEN
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
LATEST = datetime.max.replace(tzinfo=timezone.utc)


class Served(NamedTuple):
    """The codes that a worker has handlers for and may claim, and the revision that has them."""

    revision: int
    codes: tuple[str, ...]


NOTHING = Served(-1, ())


def served_by(config: WorkerConfig, known: Served = NOTHING) -> Served:
    """The codes of a worker as they are now; ``known`` itself if no handler has come since.

    For the thread of the heartbeats: it takes no lock and calls nobody.
    """
    now = revision()  # before the handlers: one that comes meanwhile is found the next time
    if now == known.revision:
        return known
    codes = config.codes
    handlers = get_task_handlers()
    return Served(now, tuple(sorted(code for code in handlers if not codes or code in codes)))


class RollCall(NamedTuple):
    """One look at all workers: the database's time, and our own before it was asked and after it
    had answered."""

    utc: datetime
    asked: float
    answered: float

    @property
    def took(self) -> float:
        return self.answered - self.asked


class View(NamedTuple):
    """All workers as the last heartbeat saw them.

    ``seen``: of each peer, the count of its heartbeats and the time of the last one, by our clock.
    ``departures`` counts the looks at which somebody had gone. ``may_judge``: by this view others
    may be taken for dead, see ``Membership.may_rescue``. ``wish`` is what a person has asked this
    worker for.
    """

    beats: int = 0
    peers: tuple[workers.Peer, ...] = ()
    seen: Mapping[int, tuple[int, float]] = MappingProxyType({})
    look: RollCall | None = None
    departures: int = 0
    may_judge: bool = False
    wish: str = ""


class Living(NamedTuple):
    """The workers of a view that look alive at all times from ``since`` to ``until``.

    They were counted for this ``view`` and ``worker_id``; ``rank`` of them are older.
    """

    view: View
    worker_id: int
    since: datetime
    until: datetime
    peers: tuple[workers.Peer, ...]
    rank: int

    def are_for(self, view: View, worker_id: int, now: datetime) -> bool:
        """Tell if to count again would find the same."""
        is_same = self.view is view and self.worker_id == worker_id
        return is_same and self.since <= now <= self.until


class Membership:
    """Written by the thread that sends the heartbeats, asked by all.

    What a heartbeat has learnt crosses to the other threads as one frozen ``View``. The lease
    counts from *before* a heartbeat was sent, so that this worker stops believing in itself a
    little before anybody else does.
    """

    def __init__(self, config: WorkerConfig, ticks: Callable[[], float] = ticks) -> None:
        self._config = config
        self._registration = config.registration()
        # Codes as the worker's row has them, and if the last heartbeat has brought another wish.
        self._served = NOTHING
        self._wish_is_news = False
        self._beaten = self._unbroken_since = self._joined = float("-inf")
        self.worker_id = 0
        self.clock = Clock(ClockReading(utc_now(), ticks()), ticks)
        self.view = View()
        self._judge_at = inf
        # Counted by any thread that asks, and handed on as one value: to lose one costs a count.
        self._living: Living | None = None

    @property
    def name(self) -> str:
        return self._registration.name

    def can_be_rung_at(self, doorbell: str) -> None:
        """To be known before it joins: where others can wake this worker."""
        self._registration = self._registration._replace(doorbell=doorbell)

    def registration(self, served: Served) -> Registration:
        """The facts for its row. A worker that joins again goes on with the wish that it knows."""
        return self._registration._replace(codes=served.codes, wish=self.view.wish)

    def join(self) -> int:
        """Enter the table of workers, again if need be; returns the new worker id."""
        asked = self.clock.monotonic()
        self.clock.set(read_clock(using=self._config.using))
        # Before the lease is valid: claims of the life before must never look like ours.
        served = served_by(self._config)
        self.worker_id = workers.register(
            self.registration(served), self.clock.now(), using=self._config.using
        )
        self._served = served
        self._beaten = self._unbroken_since = self._joined = asked
        return self.worker_id

    def beat(self, state: str, counters: Mapping[str, int], busy: int = 0) -> bool:
        """Renew the lease and look at all workers; False when others have taken us for dead.

        Two statements. Database errors pass: then nothing was renewed.
        """
        served = served_by(self._config, self._served)
        news = None if served is self._served else served.codes
        signs = Signs(state, counters, busy, resident_memory(), news)
        asked = self.clock.monotonic()
        reading, peers = workers.roll_call(using=self._config.using)
        self.clock.set(reading)
        look = RollCall(reading.utc, asked, self.clock.monotonic())
        renewed = workers.beat(self.worker_id, reading.utc, signs, using=self._config.using)
        if renewed:
            self._served = served
            # Until it was answered: a database that hangs leaves a gap as well.
            answered = self.clock.monotonic()
            if answered - self._beaten > self._config.lease / 2:
                self._unbroken_since = answered
            self._beaten = asked
        else:
            self._beaten = float("-inf")
        gapless = renewed and look.answered - self._unbroken_since >= self._config.lease
        before, self.view = self.view, self._watched(tuple(peers), look, gapless)
        self._wish_is_news = self.view.wish != before.wish
        self._judge_at = self._next_judgement(self.view)
        return renewed

    def leave(self) -> None:
        """Leave the table: the very last thing a worker does."""
        workers.remove(self.worker_id, using=self._config.using)

    def seconds_to_beat(self) -> float:
        # A young worker looks around more often: those that start together do not know each other
        # yet, and would claim as if each was alone.
        age = self._beaten - self._joined
        if self._wish_is_news:  # the row is to tell soon that it was heeded
            age = 0.0
        interval = min(self._config.heartbeat_interval, max(FIRST_INTERVAL, 3 * age))
        return self._beaten + interval - self.clock.monotonic()

    def seconds_to_judge(self) -> float:
        """Seconds until somebody who has missed heartbeats may be taken for dead."""
        return self._judge_at - self.clock.monotonic()

    def is_valid(self, now: float | None = None) -> bool:
        """Tell if nobody can have taken this worker for dead yet. ``now``, if its clock was read.

        Once it is not, no task is started any more and claims are given up, *before* others take
        them: their patience cannot run out before ours.
        """
        moment = self.clock.monotonic() if now is None else now
        return moment < self._beaten + self._config.lease

    def may_rescue(self) -> bool:
        """Tell if others may be judged: only after a whole lease of heartbeats without a gap.

        When a database comes back after an outage everybody looks dead, and nobody is. A pause of
        half a lease counts as a gap: with the third of a lease that lies between two heartbeats it
        may add up to a whole one. A heartbeat that was refused is a gap as well.
        """
        return self.view.may_judge

    def living(self) -> tuple[workers.Peer, ...]:
        """The workers that seem to be at work, this one among them. Others that were asked to claim
        no more are not.
        """
        return self._counted().peers

    def _counted(self) -> Living:
        """The living, counted again when a heartbeat has brought another view, or when one of them
        no longer looks alive: each claim asks several times, and there may be a thousand.
        """
        view, worker_id, now = self.view, self.worker_id, self.clock.now()
        living = self._living
        if living is None or not living.are_for(view, worker_id, now):
            peers = tuple(peer for peer in view.peers if self._seems_at_work(peer, now))
            until = min((peer.alive_until for peer in peers), default=LATEST)
            rank = sum(peer.id < worker_id for peer in peers)
            self._living = living = Living(view, worker_id, now, until, peers, rank)
        return living

    def _seems_at_work(self, peer: workers.Peer, now: datetime) -> bool:
        # One that was asked to claim no more takes no share of what is due, and no hint. Race: it
        # has not read that yet, and others count one too few: only who comes first depends on it.
        return peer.looks_alive(now) and (not peer.wish or peer.id == self.worker_id)

    def dead(self) -> list[workers.Peer]:
        """Peers that had not beaten for their whole lease, and ours, at the last look.

        Measured by our monotonic clock: neither their clock, nor the database's jumping, nor an
        hour that comes twice makes anybody look dead. We never date a peer's heartbeat too early,
        so a peer gives up its lease before we declare it dead. Our own lease counts
        too, because we notice no outage that is much shorter. As of the last look, not of now: in
        an outage since then nobody could have sent a heartbeat.

        Race: a heartbeat brings another view, the first one after an outage, when ``may_rescue``
        has just been asked. So nobody is dead in a view by which nobody may be judged.
        """
        view = self.view
        if view.look is None or not view.may_judge:
            return []
        tick = view.look.answered
        return [peer for peer in self._others(view) if tick > self._end_of(peer, view)]

    def _others(self, view: View) -> list[workers.Peer]:
        return [peer for peer in view.peers if peer.id != self.worker_id]

    def _end_of(self, peer: workers.Peer, view: View) -> float:
        lease = max(peer.lease, self._config.lease)
        return view.seen[peer.id][1] + lease * (1 + CLOCK_DRIFT)  # its seconds may be longer

    def _next_judgement(self, view: View) -> float:
        """The next end of a lease, where this worker is one of the few that look at that moment."""
        now = view.look.answered if view.look else self.clock.monotonic()
        others = self._others(view)
        ends = [end for end in (self._end_of(peer, view) for peer in others) if end > now]
        older = [peer for peer in others if peer.id < self.worker_id]
        # Those who are late themselves will not look.
        at_work = sum(now - view.seen[peer.id][1] < peer.lease / 2 for peer in older)
        return min(ends, default=inf) if at_work < FEW else inf

    def _watched(self, peers: tuple[workers.Peer, ...], look: RollCall, may_judge: bool) -> View:
        before, seen = self.view, {}
        for peer in peers:
            known = before.seen.get(peer.id)
            if known is None or known[0] != peer.beats:
                known = (peer.beats, self._last_beat(peer, look))
            seen[peer.id] = known
        gone = not before.seen.keys() <= seen.keys()
        departures = before.departures + gone
        # Whose row is gone, or was not read yet, goes on as it was asked before.
        wish = next((peer.wish for peer in peers if peer.id == self.worker_id), before.wish)
        return View(before.beats + 1, peers, seen, look, departures, may_judge, wish)

    def _last_beat(self, peer: workers.Peer, now: RollCall) -> float:
        """The time of a peer's heartbeat whose count has moved, by our clock, or later.

        It was after our last look, so the database's clock tells how long ago it was, if that has
        run evenly since: if not, or if workers may have read the clocks of different nodes, it
        counts from now.
        """
        before = self.view.look
        if before is None or not share_a_clock(using=self._config.using):
            return now.answered
        between = now.answered - before.answered
        doubt = now.took + before.took + CLOCK_DRIFT * between
        if abs((now.utc - before.utc).total_seconds() - between) > doubt:
            return now.answered
        age = (now.utc - peer.heartbeat).total_seconds() - doubt
        return now.answered - age if 0 < age < between else now.answered

    def rank(self) -> int:
        """The number of workers at work that are older than this one."""
        return self._counted().rank

    def is_drawn(self, lot: float) -> bool:
        """Tell if a hint with this lot (from 0, below 1) is to wake this worker."""
        counted = self._counted()
        living = max(1, len(counted.peers))
        return (counted.rank - int(lot * living)) % living < FEWEST_WOKEN
