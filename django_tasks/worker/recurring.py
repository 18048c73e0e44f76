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

# How often handlers that run on each host have their rows touched, in seconds: a host of which that
# was not heard for a day has gone.
TOUCH_SECONDS = 3600.0
# How soon to try again after an error of the database, in seconds.
RETRY_SECONDS = 1.0

# Has rows be as the code says, now.
Keep = Callable[..., None]


class Recurring:
    """Used by the poller thread alone; ``is_settled`` says that the rows are as the code says."""

    def __init__(
        self,
        using: str,
        clock: Clock,
        keep: Keep = schedule_rows.keep,
        keep_hosts: Keep = schedule_rows.keep_hosts,
        bounds: Bounds | None = None,
    ) -> None:
        """``bounds`` are those of the waits of its connection; None: as the project has set it."""
        self._bounds = bounds
        self._using = using
        self._clock = clock
        self._keep = keep
        self._keep_hosts = keep_hosts
        self._thread: Thread | None = None
        # For which set of handlers the rows were kept, and for which a thread is about to.
        self._kept = -1
        self._asked = -1
        self._retry_at = float("-inf")
        self._touch_at = float("-inf")

    def keep_up(self) -> None:
        """Start a thread if handlers were registered since the last time, or an hour has passed
        for those that run on each host. Never waits.
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
        if schedule_rows.are_on_hosts():
            return True
        self._touch_at = now + TOUCH_SECONDS
        return False

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
        keep = self._keep_hosts if self.is_settled() else self._keep
        try:
            keep(self._clock.now(), using=self._using)
        except Error as error:
            logs.schedules_not_kept(self._using, error)
        else:
            self._touch_at = ticks() + TOUCH_SECONDS
            self._kept = self._asked
