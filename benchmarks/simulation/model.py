"""The model: workers as they are written, on a server with so many cores and one log."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, NamedTuple, TypeVar

import simpy

from benchmarks.simulation.costs import HOSTS, STATEMENT, Costs, Site
from benchmarks.simulation.engine import (
    ASIDE_SECONDS,
    BATCH,
    BEAT_SECONDS,
    BUFFER_SECONDS,
    CONTESTED_SECONDS,
    FEWEST_WOKEN,
    LANES_SECONDS,
    LANES_SHARE,
    LONGEST_LANES_SECONDS,
    LONGEST_SLEEP,
    MOST_PLACES,
    MOST_SHARES,
    PAUSE_SECONDS,
    POLL_SECONDS,
    THREADS,
)
from benchmarks.simulation.rows import HEAD, Rows, Share

Result = TypeVar("Result")
Steps = Generator[simpy.Event, Any, Result]

# A statement takes more or less: the standard deviation of the logarithm of its time.
SPREAD = 0.3
# What the server does in the background takes a core for so long at a time.
SLICE_SECONDS = 0.001
# If more than this share of what becomes due is added to the backlog, it is there to stay.
BEHIND = 0.05
# More than any drain here comes to the end of.
BACKLOG = 2_000_000


@dataclass(frozen=True)
class Case:
    """The load and the workers. ``rate``: tasks due a second; 0: a backlog to drain."""

    costs: Costs
    strategy: str
    workers: int
    rate: float = 0.0
    added: bool = False  # added when they are due, with a hint; or known long before
    handler: float = 0.0  # seconds of a run, without the use of a processor
    batch: int = BATCH
    site: Site = HOSTS
    warm_up: float = 2.0
    seconds: float = 3.0
    seed: int = 1

    @property
    def until(self) -> float:
        return self.warm_up + self.seconds


@dataclass
class Tally:
    """Results of the time after the warming up."""

    ended: int = 0
    selected: int = 0
    lost: int = 0
    statements: int = 0
    started: dict[int, float] = field(default_factory=dict)


class Outcome(NamedTuple):
    rate: float  # ended a second
    wasted: float  # share of the selected rows that somebody else took first
    statements: float  # a second
    p50: float  # seconds late; of a drain, nothing
    p99: float
    behind: bool  # more was due than was started


def simulate(case: Case) -> Outcome:
    return Simulation(case).run()


# Where to look for candidates: (who, now, limit, dice) → a share of the ids


def _head(case: Case, place: int, now: float, limit: int, dice: Random) -> Share:
    """Everybody reads the same."""
    return HEAD


def _random(case: Case, place: int, now: float, limit: int, dice: Random) -> Share:
    """One of the first eight batches."""
    return Share(offset=dice.randrange(8) * limit) if case.workers > 1 else HEAD


def _shares(case: Case, place: int, now: float, limit: int, dice: Random) -> Share:
    """As ``django_tasks.store.claim`` does it."""
    shares = min(case.workers, MOST_SHARES)
    places = min(-(-case.workers // shares), MOST_PLACES)
    return Share(shares, (place + int(now)) % shares, dice.randrange(places) * limit)


class Strategy(NamedTuple):
    """A choice of the rows that a poller reads, and of its behaviour afterwards."""

    place: Callable[[Case, int, float, int, Random], Share]
    unlocked: bool = False  # the rows that others have locked are not even read
    aside: float = 0.0  # who came in vain sleeps up to so many seconds a peer longer


STRATEGIES = {
    "head": Strategy(_head),
    "random": Strategy(_random),
    "shares": Strategy(_shares, aside=ASIDE_SECONDS),
    "locked": Strategy(_head, unlocked=True),
}


class Simulation:
    """A server, and all that its workers share."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.costs = case.costs
        self.env = simpy.Environment()
        # The background comes first: if it fell behind, claims would walk over what is left.
        self.cores = simpy.PriorityResource(self.env, case.site.cores)
        self.log = simpy.Resource(self.env)
        self.dice = Random(f"{case.seed} {case.strategy} {case.workers} {case.rate}")
        size = math.ceil(case.rate * case.until) + 1 if case.rate else BACKLOG
        self.rows = Rows(size, case.rate, start=POLL_SECONDS)  # when all workers are at work
        self.tally = Tally()
        self._debt = 0.0
        self._owed = self.env.event()
        self.workers = [Worker(self, place) for place in range(case.workers)]

    def run(self) -> Outcome:
        for worker in self.workers:
            self.env.process(worker.main())
        self.env.process(self._maintain())
        if self.case.added:
            self.env.process(self._ring())
        self.env.run(until=self.case.warm_up)
        self.tally = Tally(started=self.tally.started)
        self.env.run(until=self.case.until)
        return self._outcome()

    # The server

    def statement(
        self, work: Callable[[], tuple[Result, float]], *, writes: bool = False
    ) -> Steps[Result]:
        """``work`` is done at one moment, when a core is free, and says how long it will take."""
        self.tally.statements += 1
        yield self.env.timeout(self.case.site.trip)
        if writes and self.costs.one_writer:
            with self.log.request() as lock:
                yield lock
                return (yield from self._execute(work))
        return (yield from self._execute(work))

    def _execute(self, work: Callable[[], tuple[Result, float]]) -> Steps[Result]:
        with self.cores.request(priority=1) as core:
            yield core
            result, seconds = work()
            yield self.env.timeout(self.vary(STATEMENT + seconds))
        return result

    def commit(self) -> Steps[None]:
        with self.log.request() as turn:
            yield turn
            yield self.env.timeout(self.vary(self.costs.commit))

    def compute(self, seconds: float) -> Steps[None]:
        """A worker's own work, on the server's cores if it has to share them."""
        if not self.case.site.shared:
            yield self.env.timeout(seconds)
            return
        with self.cores.request(priority=1) as core:
            yield core
            yield self.env.timeout(seconds)

    def vary(self, seconds: float) -> float:
        return seconds * self.dice.lognormvariate(-SPREAD * SPREAD / 2, SPREAD)

    def owe(self, seconds: float) -> None:
        """Leave work for the background."""
        self._debt += seconds
        if self._debt and not self._owed.triggered:
            self._owed.succeed()

    def _maintain(self) -> Steps[None]:
        """One thread, as purge and vacuum have for one table."""
        while True:
            yield self._owed
            self._owed = self.env.event()
            while self._debt > 0:
                with self.cores.request(priority=0) as core:
                    yield core
                    slice_ = min(self._debt, SLICE_SECONDS)
                    yield self.env.timeout(slice_)
                    self._debt -= slice_

    def _ring(self) -> Steps[None]:
        """Wake workers for what has been added; two for each task."""
        known = 0
        while True:
            yield self.env.timeout(PAUSE_SECONDS)
            due = self.rows.due(self.env.now)
            calls = min(FEWEST_WOKEN * (due - known), len(self.workers))
            for worker in self.dice.sample(self.workers, calls):
                worker.wake()
            known = due

    # What came of it

    def _outcome(self) -> Outcome:
        case, tally, late = self.case, self.tally, sorted(self._lateness())
        return Outcome(
            rate=tally.ended / case.seconds,
            wasted=tally.lost / max(1, tally.selected),
            statements=tally.statements / case.seconds,
            p50=late[len(late) // 2] if late else 0.0,
            p99=late[len(late) * 99 // 100] if late else 0.0,
            behind=self._is_behind(),
        )

    def _is_behind(self) -> bool:
        """Tell if tasks become due faster than they are started."""
        case = self.case
        growth = self._waiting(case.until) - self._waiting(case.warm_up)
        return bool(case.rate) and growth > BEHIND * case.rate * case.seconds

    def _waiting(self, now: float) -> int:
        started = sum(at <= now for at in self.tally.started.values())
        return self.rows.due(now) - started

    def _looked_at(self) -> range:
        """The rows that were due after the warming up."""
        return range(self.rows.due(self.case.warm_up), self.rows.due(self.case.until))

    def _lateness(self) -> list[float]:
        """Of those that have not started, what it is so far."""
        started, until = self.tally.started, self.case.until
        return [started.get(row, until) - self.rows.due_at(row) for row in self._looked_at()]


class Worker:
    """One process: its poller, and threads of which only the pace matters."""

    def __init__(self, simulation: Simulation, place: int) -> None:
        self._simulation = simulation
        self._case = simulation.case
        self._costs = simulation.costs
        self._env = simulation.env
        self._dice = simulation.dice
        self._place = place
        self._strategy = STRATEGIES[simulation.case.strategy]
        self._bell = self._env.event()
        self._beats_at = self._dice.uniform(0, BEAT_SECONDS)
        self._runs: deque[tuple[float, int]] = deque()  # when a run ends, and of which row
        self._free_at = 0.0  # when the next thread will be
        self._lanes_known_until = 0.0
        self._in_vain = False

    def wake(self) -> None:
        if not self._bell.triggered:
            self._bell.succeed()

    def main(self) -> Steps[None]:
        yield self._env.timeout(self._dice.uniform(0, POLL_SECONDS))
        while True:
            if self._env.now >= self._beats_at:
                yield from self._beat()
            yield from self._finish()
            delay = yield from self._claim()
            if delay > 0:
                yield from self._sleep(delay)

    def _sleep(self, delay: float) -> Steps[None]:
        now = self._env.now
        longest = POLL_SECONDS * self._dice.uniform(1, LONGEST_SLEEP)
        until_end = self._runs[0][0] - now if self._runs else longest
        seconds = max(1e-6, min(delay, longest, until_end, self._beats_at + 1 - now))
        yield self._env.timeout(seconds) | self._bell
        if self._bell.triggered:
            self._bell = self._env.event()

    def _beat(self) -> Steps[None]:
        self._beats_at = self._env.now + BEAT_SECONDS
        everybody = self._case.workers * self._costs.peer
        yield from self._simulation.statement(lambda: (None, everybody))
        yield from self._write(lambda: (True, self._costs.look))

    # The end of runs

    def _finish(self) -> Steps[None]:
        ended = []
        while self._runs and self._runs[0][0] <= self._env.now:
            ended.append(self._runs.popleft()[1])
        if ended:
            yield from self._write(lambda: (True, self._costs.delete * len(ended)))
            self._simulation.rows.end(ended)
            self._simulation.tally.ended += len(ended)
            self._simulation.owe(self._costs.upkeep * len(ended))

    def _write(self, work: Callable[[], tuple[Result, float]]) -> Steps[Result]:
        """With its commit, unless ``work`` says that it changed nothing."""
        result = yield from self._simulation.statement(work, writes=True)
        if result:
            yield from self._simulation.commit()
        return result

    # Claims

    def _claim(self) -> Steps[float]:
        """Returns the seconds to sleep."""
        room = self._room()
        if room == 0:
            return POLL_SECONDS
        if self._env.now > self._lanes_known_until:
            begun: float = self._env.now
            first = yield from self._simulation.statement(self._search)
            now: float = self._env.now
            if first > now:
                return first - now + self._aside()
            fair = (now - begun) / LANES_SHARE
            self._lanes_known_until = now + min(LONGEST_LANES_SECONDS, max(LANES_SECONDS, fair))
        taken = yield from self._take(room)
        if len(taken) < room:
            self._lanes_known_until = 0.0
        yield from self._start(taken)
        self._in_vain = not taken
        contested = self._dice.uniform(0.5, 1.5) * CONTESTED_SECONDS
        return 0.0 if taken else contested + self._aside()

    def _aside(self) -> float:
        most = self._strategy.aside * (self._case.workers - 1)
        return self._dice.uniform(0, most) if self._in_vain else 0.0

    def _room(self) -> int:
        """The number of tasks that would start soon."""
        if not self._case.handler:
            return self._case.batch
        pace = THREADS / self._case.handler
        buffer = min(self._case.batch, int(pace * BUFFER_SECONDS))
        return min(self._case.batch, max(0, THREADS + buffer - len(self._runs)))

    def _search(self) -> tuple[float, float]:
        """The time of the first pending task. Of those that are to be added nobody knows."""
        rows, now = self._simulation.rows, self._env.now
        first = rows.first()
        known = first >= 0 and not (self._case.added and first >= rows.due(now))
        return rows.due_at(first) if known else math.inf, self._costs.lanes

    def _take(self, limit: int) -> Steps[list[int]]:
        if self._strategy.unlocked:
            taken = yield from self._take_unlocked(limit)
        else:
            ids = yield from self._candidates(limit)
            taken = (yield from self._take_unchanged(ids)) if ids else []
        self._simulation.rows.commit(taken)
        return taken

    def _take_unlocked(self, limit: int) -> Steps[list[int]]:
        """Searched and locked at one moment, so that nothing is lost."""
        rows, costs = self._simulation.rows, self._costs

        def work() -> tuple[list[int], float]:
            found, steps = rows.candidates(self._env.now, limit, unlocked=True)
            return rows.take(found), (costs.read + costs.take) * len(found) + costs.step * steps

        return (yield from self._write(work))

    def _candidates(self, limit: int) -> Steps[list[int]]:
        share = self._strategy.place(self._case, self._place, self._env.now, limit, self._dice)
        found: list[int] = []
        for look in dict.fromkeys([share, share._replace(offset=0), HEAD]):
            found = found or (yield from self._read(limit, look))
        return found

    def _read(self, limit: int, share: Share) -> Steps[list[int]]:
        def work() -> tuple[list[int], float]:
            found, steps = self._simulation.rows.candidates(self._env.now, limit, share)
            return found, self._costs.read * len(found) + self._costs.step * steps

        return (yield from self._simulation.statement(work))

    def _take_unchanged(self, ids: list[int]) -> Steps[list[int]]:
        def work() -> tuple[list[int], float]:
            taken = self._simulation.rows.take(ids)
            lost = len(ids) - len(taken)
            return taken, self._costs.take * len(taken) + self._costs.look * lost

        taken = yield from self._write(work)
        self._simulation.tally.selected += len(ids)
        self._simulation.tally.lost += len(ids) - len(taken)
        if len(taken) < len(ids):
            yield from self._simulation.statement(lambda: (None, self._costs.look * len(ids)))
        return taken

    # Runs

    def _start(self, taken: Sequence[int]) -> Steps[None]:
        """The poller goes on when Python is through with the batch: one thread runs at a time."""
        client, handler = self._case.site.client, self._case.handler
        gap = max(client, handler / THREADS)
        starts = count(max(self._env.now, self._free_at), gap)
        for row, start in zip(taken, starts, strict=False):
            self._simulation.tally.started[row] = start
            self._runs.append((start + handler, row))
            self._free_at = start + gap
        yield from self._simulation.compute(client * len(taken))
