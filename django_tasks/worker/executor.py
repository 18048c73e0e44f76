"""Threads that run claimed tasks.

The poller fills the buffer and collects the ends; each thread takes the next work item when it is
free, so none waits behind a slow one while a thread is idle. What has not started can be taken
back. A work item is one claim, or the claims of a batch.

Between poller and threads go two deques, whose ``append`` and ``popleft`` are atomic: a lock for
each task cost more than the rest of a short run, because eight threads queued for it. Only a
thread with nothing to do takes a lock, to sleep.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.store.connection import (
    USUAL_LEASE,
    close_connections,
    is_touched,
    leave_transactions,
    own_connections,
    tidy,
)
from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import GiveBack
from django_tasks.worker.fresh_context import FreshContext
from django_tasks.worker.process_wide import ProcessWide
from django_tasks.worker.run import leave

# Claims that one thread runs together: of one code, and one claim where the code has no batches.
Item = tuple[Claimed, ...]

# How much work may wait in the buffer: enough to bridge the poller's next cycle, little enough
# that another worker could not have done it sooner.
BUFFER_SECONDS = 0.05
# Buffered items that no thread has taken for this long are given back.
STALE_SECONDS = 0.05


class Running(NamedTuple):
    """The claims that a thread runs now, and the monotonic time of the start of their call."""

    item: Item
    started: float


# Takes ends while others of their item still run.
TakeEnds = Callable[[Sequence[Ended]], object]


class RunItem(Protocol):
    """Turns the claims of an item into their ends."""

    def __call__(self, item: Item, take: TakeEnds) -> Sequence[Ended]:
        """Run them; returns the ends that ``take`` has not been given before. Should raise nothing.

        ``take`` is called after each call of a handler but the last, with its ends or with none.
        """

    def crashed(self, claimed: Claimed) -> Ended:
        """The end of a run that has raised all the same, or whose thread has died."""


class Executor:
    """``run`` turns an item into its ends; ``wake`` tells the poller of ends.

    All methods are for the poller's thread; ``running`` and ``relieve`` for any. An item in the
    buffer belongs to whichever takes it out, a thread that starts it or the one that gives it back:
    ``popleft`` is atomic.
    """

    def __init__(
        self, threads: int, run: RunItem, wake: Callable[[], None], lease: float = USUAL_LEASE
    ) -> None:
        self._run = run
        self._lease = lease
        self._wake = wake
        self._size = threads
        self._context = FreshContext()
        self._process = ProcessWide()
        # Shared with the threads. Each of them writes its own place in ``_running`` only.
        self._buffer: deque[Item] = deque()
        self._ended: deque[Sequence[Ended]] = deque()
        self._early: deque[Sequence[Ended]] = deque()  # of items that still run
        self._running: list[Running | None] = [None] * threads
        self._last_start = ticks()
        self._work = threading.Condition()
        self._sleeping = 0
        self._waking = False
        self._closing = False
        # The poller's own: the items that it has not collected yet and the claims in them, and how
        # many items a second it saw end last, from when on.
        self._items = 0
        self._in_hand = 0
        self._pace = 0.0
        self._since = ticks()
        self._threads = [self._thread(place) for place in range(threads)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def mend(self) -> None:
        """Replace threads that have died; what they ran ends as a failure."""
        for place, thread in enumerate(self._threads):
            if thread.ident is not None and not thread.is_alive() and not self._closing:
                logs.thread_died(thread.name)
                running, self._running[place] = self._running[place], None
                if running:
                    self._ended.append(self._crashed(running.item))
                thread = self._thread(place)
                with suppress(RuntimeError):  # none is left for now: the next cycle tries again
                    thread.start()
                    self._threads[place] = thread

    def _thread(self, place: int) -> threading.Thread:
        name = f"django_tasks-{place + 1}"
        return threading.Thread(target=self._main, args=(place,), name=name, daemon=True)

    def close(self) -> None:
        """Let idle threads end, and busy ones after their item."""
        with self._work:
            self._closing = True
            self._work.notify_all()

    def join(self, given_up: frozenset[tuple[int, ...]] = frozenset()) -> None:
        """Wait for the end of all threads but those that are stuck in a call that was given up."""
        for place, thread in enumerate(self._threads):
            running = self._running[place]
            is_stuck = running is not None and is_given_up(running.item, given_up)
            if thread.ident is not None and not is_stuck:
                thread.join()

    def submit(self, items: Sequence[Item], *, first: bool = False) -> None:
        """Have items run; ``first``: before all that waits."""
        tick = ticks()
        if not self._in_hand:
            self._since = tick
            self._items = 0
        self._items += len(items)
        self._in_hand += sum(map(len, items))
        self._last_start = tick
        if first:
            self._buffer.extendleft(reversed(items))
        else:
            self._buffer.extend(items)
        self._wake_one()

    def collect(self) -> list[Ended]:
        """Every end since the last call."""
        early = [self._early.popleft() for _ in range(len(self._early))]
        items = [self._ended.popleft() for _ in range(len(self._ended))]
        ended = list(chain.from_iterable([*early, *items]))
        self._in_hand -= len(ended)
        if items:
            tick = ticks()
            pace = len(items) / max(tick - self._since, 1e-6)
            # Slow to believe that tasks are quick: the buffer at most doubles each time.
            self._pace = min(pace, 2 * max(self._pace, self._size / BUFFER_SECONDS))
            self._since = tick
            self._items -= len(items)
        return ended

    def take_back(self) -> list[Claimed]:
        """Empty the buffer: claims that no thread has started."""
        items = self._empty()
        unstarted = list(chain.from_iterable(items))
        self._items -= len(items)
        self._in_hand -= len(unstarted)
        return unstarted

    def relieve(self) -> list[Claimed]:
        """Empty the buffer in place of a poller that hangs: each claim ends as given back.

        The poller collects these ends when it goes on. Until then they are for the caller to write.
        """
        items = self._empty()
        self._ended.extend([Ended(claimed, GiveBack()) for claimed in item] for item in items)
        return list(chain.from_iterable(items))

    def _empty(self) -> list[Item]:
        items: list[Item] = []
        with suppress(IndexError):  # the threads take from it meanwhile
            while True:
                items.append(self._buffer.popleft())
        return items

    def known(self) -> set[tuple[int, ...]]:
        """Id and version of each claim that waits, runs, or has ended and was not collected.

        A claim on its way from one of these to the next may be missing for an instant.
        """
        running = [running.item for running in self.running()]
        known = set(_fences(chain.from_iterable([*list(self._buffer), *running])))
        return known.union(_fences(end.claimed for ends in self._uncollected() for end in ends))

    def _uncollected(self) -> list[Sequence[Ended]]:
        return [*list(self._early), *list(self._ended)]

    def forget(self, count: int) -> None:
        """Expect ``count`` ends less: their claims were found nowhere.

        The number of items is right again when none is in hand.
        """
        self._in_hand -= count

    def room(self, most: int) -> int:
        """The number of items that would start soon: free threads, and a buffer by the pace so far.

        The buffer takes up to ``most``.
        """
        ended = len(self._ended)
        unfinished = min(self._items, self._in_hand) - ended  # the first may have been forgotten
        pace = self._pace
        if unfinished:
            # Quick to believe that they are slow: in all this time no more than these have ended.
            pace = min(pace, (ended + 1) / max(ticks() - self._since, 1e-6))
        allowance = min(most, int(pace * BUFFER_SECONDS))
        return max(0, self._size + allowance - unfinished)

    def is_stale(self) -> bool:
        """Tell if items wait in the buffer and no thread is getting to them."""
        return bool(self._buffer) and ticks() - self._last_start > STALE_SECONDS

    def has_waiting(self) -> bool:
        return bool(self._buffer)

    def is_idle(self) -> bool:
        return not self._in_hand

    def has_ended_all(self) -> bool:
        """Tell if all that is in hand has ended, and waits to be collected."""
        return sum(map(len, self._uncollected())) == self._in_hand

    def runs_only(self, given_up: Set[tuple[int, ...]]) -> bool:
        """Tell if nothing is in hand but runs that were given up.

        Counted: a claim that a thread has just taken is not among the running for an instant.
        """
        items = [running.item for running in self.running()]
        return sum(len(item) for item in items if is_given_up(item, given_up)) == self._in_hand

    def running(self) -> list[Running]:
        """The runs under way."""
        return [running for running in self._running if running]

    # The threads

    def _main(self, place: int) -> None:
        # Asked for once: they are this thread's own for all its life, and to look for the open ones
        # among them after each run took a sixth of the time of a short one.
        own = own_connections(self._lease)
        try:
            while self._has_work():
                self._run_all(place, own)
        finally:
            close_connections()

    def _run_all(self, place: int, own: Sequence[BaseDatabaseWrapper] = ()) -> None:
        take = partial(self._take, place, own)
        leave_transactions()  # the thread of an async run may have taken its time
        while True:
            try:
                item = self._buffer.popleft()
            except IndexError:
                return
            if self._buffer:
                self._wake_one()  # now: this item may take its time
            self._last_start = started = ticks()
            self._running[place] = Running(item, started)
            try:
                ended = self._context.run(self._run, item, take)
            except BaseException:  # noqa: BLE001 - else the rows would be held for ever
                logs.run_failed(item[0])
                ended = self._crashed(self._left(place))
            # The moment of its end, without a reading: that takes a fiftieth of a short run.
            now = started + ended[0].took if len(ended) == 1 else ticks()
            self._clean_up(item[0], own, now, is_busy=bool(self._buffer))
            # In this order: a claim that is in neither place would look lost.
            self._ended.append(ended)
            self._running[place] = None
            self._wake()

    def _take(self, place: int, own: Sequence[BaseDatabaseWrapper], ended: Sequence[Ended]) -> None:
        """Take ends of the item that this thread runs: the rest of it is called next.

        Not within a transaction that the call before has left: their effects would go with that.
        """
        left = self._left(place)
        self._clean_up(left[0], own, ticks(), is_busy=True)
        gone = {*_fences(end.claimed for end in ended)}
        after = Running(tuple(each for each in left if each[:2] not in gone), ticks())
        # In this order, as below, and with nothing in between that may fail.
        if ended:
            self._early.append(ended)
        self._running[place] = after
        self._wake()

    def _clean_up(
        self, claimed: Claimed, own: Sequence[BaseDatabaseWrapper], now: float, *, is_busy: bool
    ) -> None:
        if is_touched():
            leave(claimed, is_over=True)
            tidy(own, is_busy=is_busy)
        self._process.look(claimed, now)

    def _left(self, place: int) -> Item:
        running = self._running[place]
        return running.item if running else ()

    def _crashed(self, item: Item) -> list[Ended]:
        return [self._run.crashed(claimed) for claimed in item]

    def _has_work(self) -> bool:
        """Sleep until there is some; False if there will be none any more.

        Race: an item comes while this thread goes to sleep. It counts itself among the sleepers
        before it looks, and the poller, which brings an item, looks for sleepers afterwards: one of
        the two sees the other.
        """
        with self._work:
            self._sleeping += 1
            while not (self._buffer or self._closing):
                self._work.wait()
                self._waking = False
            self._sleeping -= 1
            return bool(self._buffer) or not self._closing

    def _wake_one(self) -> None:
        """Wake one sleeping thread; it wakes the next if more items wait.

        While a woken thread has not run yet, wake no other: one wake-up per task cost 5 % of a
        drain. Race: the woken thread finds the buffer empty. It clears ``_waking`` before it looks,
        and the poller reads ``_waking`` after it has added an item, so it wakes another one.
        """
        if self._sleeping and not self._waking:
            with self._work:
                if self._sleeping and not self._waking:  # as it is now, under the lock
                    self._waking = True
                    self._work.notify()


def is_given_up(item: Item, given_up: Set[tuple[int, ...]]) -> bool:
    """Tell if the call of an item was given up: claims of it that are to be called later wait, too.

    ``given_up``: ids and versions of claims.
    """
    return not given_up.isdisjoint(_fences(item))


def _fences(claims: Iterable[Claimed]) -> Iterable[tuple[int, ...]]:
    return (claimed[:2] for claimed in claims)
