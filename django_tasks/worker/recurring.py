"""Keep the rows of handlers that have a schedule of their own, in a thread of its own.

A trigger of the project's computes the first time of such a row, and may take as long as it likes:
neither a heartbeat nor a claim waits for it.
"""

from collections.abc import Callable
from threading import Thread

from django.db import Error

from django_tasks import logs
from django_tasks.clock import Clock
from django_tasks.handlers import registry
from django_tasks.host.clocks import ticks
from django_tasks.store.connection import close_connections, take_connection
from django_tasks.store.dialects import Bounds
from django_tasks.worker import schedule_rows

# How soon to try again after an error of the database, in seconds.
RETRY_SECONDS = 1.0


class Recurring:
    """Used by the poller thread alone; ``is_settled`` says that the rows are as the code says."""

    def __init__(
        self,
        using: str,
        clock: Clock,
        keep: Callable[..., None] = schedule_rows.keep,
        bounds: Bounds | None = None,
    ) -> None:
        """``bounds`` are those of the waits of its connection; None: as the project has set it."""
        self._bounds = bounds
        self._using = using
        self._clock = clock
        self._keep = keep
        self._thread: Thread | None = None
        # For which set of handlers the rows were kept, and for which a thread is about to.
        self._kept = -1
        self._asked = -1
        self._retry_at = float("-inf")

    def keep_up(self) -> None:
        """Start a thread if handlers were registered since the last time. Never waits."""
        if self.is_settled() or self._is_at_work() or ticks() < self._retry_at:
            return
        self._asked = registry.revision()
        self._retry_at = ticks() + RETRY_SECONDS
        self._start()

    def is_settled(self) -> bool:
        """Tell if the rows are as all handlers say that are registered now."""
        return self._kept == registry.revision()

    def _is_at_work(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start(self) -> None:
        name = f"django_tasks-schedules-{self._using}"
        self._thread = Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        try:
            if self._bounds is not None:
                # A row that somebody holds locked would keep the thread, and the rows of all other
                # handlers, for as long as that takes.
                take_connection(self._using, self._bounds)
            self._keep_once()
        finally:
            close_connections()

    def _keep_once(self) -> None:
        try:
            self._keep(self._clock.now(), using=self._using)
        except Error as error:
            logs.schedules_not_kept(self._using, error)
        else:
            self._kept = self._asked
