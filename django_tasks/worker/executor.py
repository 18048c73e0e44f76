"""Threads that run claimed tasks.

The poller fills the buffer and collects the ends; each thread takes the next task when it is free,
so no task waits behind a slow one while a thread is idle. What has not started can be taken back.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

from django.db import connections

from django_tasks.store.claimed import Claimed
from django_tasks.store.finish import Ended

# How much work may wait in the buffer: enough to bridge the poller's next cycle, little enough
# that another worker could not have done it sooner.
BUFFER_SECONDS = 0.05
# Buffered tasks that no thread has taken for this long are given back.
STALE_SECONDS = 0.1


class Executor:
    """``run`` turns a claim into its end and never raises; ``wake`` tells the poller of ends."""

    def __init__(
        self, threads: int, run: Callable[[Claimed], Ended], wake: Callable[[], None]
    ) -> None:
        self._run = run
        self._wake = wake
        self._size = threads
        self._changed = threading.Condition()
        # All below is guarded by the condition's lock.
        self._buffer: deque[Claimed] = deque()
        self._running: dict[int, tuple[Claimed, float]] = {}
        self._ended: list[Ended] = []
        self._pace = 0.0
        self._last_start = monotonic()
        self._closing = False
        self._threads = [
            threading.Thread(target=self._work, name=f"django_tasks-{number}", daemon=True)
            for number in range(1, threads + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Let idle threads end, and busy ones after their task."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def join(self) -> None:
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def submit(self, claims: Iterable[Claimed]) -> None:
        with self._changed:
            self._buffer.extend(claims)
            self._last_start = monotonic()
            self._changed.notify(len(self._buffer))

    def collect(self) -> list[Ended]:
        """Every end since the last call."""
        with self._changed:
            ended, self._ended = self._ended, []
            return ended

    def take_back(self) -> list[Claimed]:
        """Empty the buffer: claims that no thread has started."""
        with self._changed:
            unstarted = list(self._buffer)
            self._buffer.clear()
            return unstarted

    def room(self, most: int) -> int:
        """How many more tasks would start soon: free threads, and a buffer by the pace so far.

        The buffer takes ``most`` at the most.
        """
        with self._changed:
            allowance = int(self._size * BUFFER_SECONDS / self._slowest()) if self._pace else 0
            in_hand = len(self._buffer) + len(self._running)
            return max(0, self._size + min(most, allowance) - in_hand)

    def is_stale(self) -> bool:
        """Whether tasks wait in the buffer and no thread is getting to them."""
        with self._changed:
            return bool(self._buffer) and monotonic() - self._last_start > STALE_SECONDS

    def has_waiting(self) -> bool:
        with self._changed:
            return bool(self._buffer)

    def is_idle(self) -> bool:
        with self._changed:
            return not (self._buffer or self._running or self._ended)

    def running(self) -> list[tuple[Claimed, float]]:
        """What runs now, each with the monotonic time of its start."""
        with self._changed:
            return list(self._running.values())

    def _slowest(self) -> float:
        """Seconds that a run takes, pessimistically: the pace, or what the oldest has taken."""
        oldest = min((started for _, started in self._running.values()), default=None)
        age = 0.0 if oldest is None else monotonic() - oldest
        return max(self._pace, age, 1e-6)

    def _work(self) -> None:
        try:
            while (claimed := self._next()) is not None:
                self._finished(self._run(claimed))
        finally:
            connections.close_all()

    def _next(self) -> Claimed | None:
        with self._changed:
            while not self._buffer:
                if self._closing:
                    return None
                self._changed.wait()
            claimed = self._buffer.popleft()
            self._last_start = monotonic()
            self._running[threading.get_ident()] = (claimed, self._last_start)
            return claimed

    def _finished(self, ended: Ended) -> None:
        with self._changed:
            _, started = self._running.pop(threading.get_ident())
            seconds = monotonic() - started
            # Quick to believe that tasks are slow, slow to believe that they are quick again.
            self._pace = max(seconds, 0.9 * self._pace + 0.1 * seconds)
            self._ended.append(ended)
        self._wake()
