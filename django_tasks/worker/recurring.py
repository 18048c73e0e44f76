"""Keep the rows of handlers that have a schedule of their own, in a thread of its own.

A trigger of the project's computes the first time of such a row, and may take as long as it likes:
neither a heartbeat nor a claim waits for it.
"""

from collections.abc import Callable
from datetime import datetime
from math import inf
from threading import Thread

from django.db import Error

from django_tasks import logs
from django_tasks.clock import Clock
from django_tasks.handlers import registry
from django_tasks.host.clocks import ticks
from django_tasks.store.connection import close_connections, take_connection
from django_tasks.worker import host_rows, schedule_rows
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.rejected import Rejected

# How soon to try again after an error of the database, in seconds.
RETRY_SECONDS = 1.0
TOUCH_SECONDS = host_rows.TOUCH_EVERY.total_seconds()

# Attends to rows, by the database's time.
Attend = Callable[[datetime, WorkerConfig], None]


def _look(now: datetime, config: WorkerConfig) -> None:
    schedule_rows.look(now, config)
    if host_rows.are_wanted():
        host_rows.attend(now, config)


class Recurring:
    """Used by the poller thread alone; ``is_settled`` says that the rows are as the code says."""

    def __init__(
        self,
        config: WorkerConfig,
        clock: Clock,
        keep: Attend = schedule_rows.keep,
        look_at_them: Attend = _look,
    ) -> None:
        self._config = config
        self._clock = clock
        self._keep = keep
        self._look = look_at_them
        self.rejected = Rejected(config.using, config.lease)
        self._thread: Thread | None = None
        # For which set of handlers the rows were kept, and for which a thread is about to.
        self._kept = -1
        self._asked = -1
        self._retry_at = float("-inf")
        # When the rows are to be looked at next, and when those of this host were touched last.
        self._touch_at = inf
        self._touched = clock.now()

    def keep_up(self) -> None:
        """Start a thread if handlers were registered since the last time, or the rows are to be
        looked at. Never waits.
        """
        now = ticks()
        if self.is_settled() and not self._is_touch_due(now):
            return
        if now >= self._retry_at and not self._is_at_work():
            self._asked = registry.revision()
            self._retry_at = now + RETRY_SECONDS
            self._start()

    def is_settled(self) -> bool:
        """Tell if the rows are as all handlers say that are registered now."""
        return self._kept == registry.revision()

    def _is_touch_due(self, now: float) -> bool:
        if now < self._touch_at:
            return False
        if schedule_rows.are_wanted():
            return True
        self._touch_at = now + TOUCH_SECONDS
        return False

    def _is_at_work(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start(self) -> None:
        name = f"django_tasks-schedules-{self._config.using}"
        self._thread = Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        # A row that somebody holds locked would keep the thread, and the rows of all other
        # handlers, for as long as that takes.
        take_connection(self._config.using, self._config.poller_bounds)
        try:
            self._keep_once()
        finally:
            close_connections()

    def _keep_once(self) -> None:
        """Keep the rows; or look at them, if others have not taken this host for gone."""
        now = self._clock.now()
        is_known = now - self._touched < host_rows.HOST_IS_GONE
        attend = self._look if self.is_settled() and is_known else self._keep
        try:
            attend(now, self._config)
        except Error as error:
            if not self.rejected.note(error):
                logs.schedules_not_kept(self._config.using, error)
        else:
            self.rejected.is_over()
            self._touched = now
            self._touch_at = ticks() + TOUCH_SECONDS
            self._kept = self._asked
