"""Simulated time, and the actors that take turns in it: one runs, until it waits.

An actor is a greenlet. It gives its turn away where a thread would wait: at a statement, at an
event, asleep. In between nobody else runs, so a schedule is the order of these turns and nothing
besides.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import greenlet

if TYPE_CHECKING:
    from tests.simulated_cluster.hosts import Host


class Actor:
    """A simulated thread of a host. ``own`` is what a thread keeps in a ``threading.local``."""

    def __init__(
        self, number: int, name: str, host: "Host", main: Callable[[], None], hub: greenlet.greenlet
    ) -> None:
        """``hub`` is who goes on when ``main`` has ended."""
        self.number = number
        self.name = name
        self.host = host
        self.own: dict[Any, Any] = {}
        self.is_over = False
        self.is_parked = False
        self.was_woken = False
        # What another thread has left with this one, to be raised in it.
        self.left: type[BaseException] | None = None
        # The present wait. Whatever wakes an actor names the wait that it ends.
        self.wait = 0
        self.waiters: list[Actor] = []
        self.greenlet = greenlet.greenlet(main, hub)

    def meet(self) -> None:
        """Raise what was left here, as Python does between two steps of its own code."""
        kind, self.left = self.left, None
        if kind is not None:
            raise kind


class Scheduler:
    """Runs actors one after the other, in the order of simulated time."""

    def __init__(self, on_death: Callable[[Actor, Exception], None]) -> None:
        """``on_death`` hears of an actor that has let an exception through."""
        self.on_death = on_death
        self.now = 0.0
        self.turns = 0
        self.current: Actor | None = None
        self._hub = greenlet.getcurrent()
        self._queue: list[tuple[float, int, Actor, int]] = []
        self._order = itertools.count()
        self._numbers = itertools.count(1)
        # A greenlet that is collected as garbage would run its ``finally`` clauses. Those of a
        # process that was killed must not run.
        self._kept: list[Actor] = []

    def spawn(self, name: str, host: "Host", main: Callable[[], None]) -> Actor:
        """Add an actor, whose first turn comes now."""

        def outermost() -> None:
            try:
                main()
            except Exception as error:
                self.on_death(actor, error)
            actor.is_over = True
            for waiter in actor.waiters:
                self.wake(waiter)

        actor = Actor(next(self._numbers), name, host, outermost, self._hub)
        self._kept.append(actor)
        self._push(self.now, actor)
        return actor

    def actor(self, number: int) -> Actor:
        """The actor with a number: these stand for the numbers of threads."""
        return self._kept[number - 1]

    def run(self, until: float, most: int) -> None:
        """Play until nobody has anything to do any more, or until a time; ``most`` turns."""
        while self._queue and self._queue[0][0] <= until and self.turns < most:
            at, _, actor, wait = heapq.heappop(self._queue)
            if wait != actor.wait or actor.is_over or actor.host.is_dead:
                continue
            if actor.host.frozen_until > at:
                self._push(actor.host.frozen_until, actor)
                continue
            self.now = max(self.now, at)
            self.turns += 1
            self.current = actor
            actor.greenlet.switch()
            self.current = None

    # For the actor whose turn it is

    def sleep(self, seconds: float) -> None:
        """Give the turn away for some time."""
        actor = self._parked()
        self._push(self.now + seconds, actor)
        self._hub.switch()
        actor.is_parked = False

    def park(self, until: float | None = None) -> bool:
        """Give the turn away until somebody wakes this actor; False if the time came first."""
        actor = self._parked()
        if until is not None:
            self._push(until, actor)
        self._hub.switch()
        actor.is_parked = False
        return actor.was_woken

    def wake(self, actor: Actor, delay: float = 0.0) -> None:
        """Let an actor that waits go on."""
        if actor.is_parked and not actor.was_woken:
            actor.was_woken = True
            actor.wait += 1
            self._push(self.now + delay, actor)

    def _parked(self) -> Actor:
        actor = self.current
        assert actor is not None
        actor.wait += 1
        actor.was_woken = False
        actor.is_parked = True
        return actor

    def _push(self, at: float, actor: Actor) -> None:
        heapq.heappush(self._queue, (at, next(self._order), actor, actor.wait))
