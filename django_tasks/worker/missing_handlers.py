"""Codes that have due tasks and no handler in this process."""

from collections import deque
from datetime import datetime
from math import inf
from threading import Lock, Thread

from django.db import Error

from django_tasks import logs
from django_tasks.handlers import finders
from django_tasks.host.clocks import ticks
from django_tasks.store import lanes as store
from django_tasks.store.connection import close_connections
from django_tasks.store.lanes import Lane
from django_tasks.wakeup import local

# Searches at once: a module may hang while it is imported, and others may not wait for it.
MOST_SEARCHES = 4
# When to look again after the database did not answer.
RETRY_SECONDS = 10.0
# How long a worker that ends when nothing is due waits for modules to be imported.
SETTLE_SECONDS = 30.0


class UnknownCodes:
    """Used by the poller thread; handlers are looked for in others, which end with that.

    Once for each code: its tasks are never claimed and never deleted, for a newer worker will know
    it. One that has no handler here is told of.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        # When to look for a code again, by the host's monotonic clock.
        self._again: dict[str, float] = {}
        self._lock = Lock()
        # Lanes to look for, each with the moment of its look.
        self._wanted: deque[tuple[Lane, datetime]] = deque()
        self._searches = 0
        self._last_begun = -inf

    def meet(self, lane: Lane, now: datetime) -> None:
        """Look for the handler of a lane that is due at ``now``."""
        if ticks() < self._again.get(lane.biz_code, -inf):
            return
        self._again[lane.biz_code] = inf
        if not finders.are_known():
            self._tell(lane, now)
            return
        with self._lock:
            self._wanted.append((lane, now))
            self._last_begun = ticks()
            if self._searches < MOST_SEARCHES:
                self._searches += 1
                Thread(target=self._search_all, name="django_tasks-finder", daemon=True).start()

    def is_searching(self) -> bool:
        """Tell if a handler may still be found: a reason not to end yet, but not for long."""
        return self._searches > 0 and ticks() - self._last_begun < SETTLE_SECONDS

    # In another thread

    def _search_all(self) -> None:
        try:
            while (wanted := self._next()) is not None:
                self._search(*wanted)
        finally:
            close_connections()

    def _next(self) -> tuple[Lane, datetime] | None:
        """The next lane to look for; None ends the thread, so that a later one starts another."""
        with self._lock:
            if self._wanted:
                return self._wanted.popleft()
            self._searches -= 1
        local.ring(self._using, overdue=False)  # a worker may wait for this to end
        return None

    def _search(self, lane: Lane, now: datetime) -> None:
        try:
            if finders.find(lane.biz_code, using=self._using):
                local.ring(self._using, overdue=True)
            else:
                self._tell(lane, now)
        except Error:  # no answer: another one may come
            self._again[lane.biz_code] = ticks() + RETRY_SECONDS
        except BaseException as error:  # noqa: BLE001 - a module that is imported may raise anything
            logs.search_failed(self._using, lane.biz_code, error)

    def _tell(self, lane: Lane, now: datetime) -> None:
        due = store.count_due(lane, now, using=self._using)
        logs.unknown_code(self._using, lane.biz_code, due)
