"""Keep the rows of handlers that have a schedule of their own, in a thread of its own.

A trigger of the project's computes the first time of such a row, and may take as long as it likes:
neither a heartbeat nor a claim waits for it.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from math import inf
from threading import Thread

from django.db import Error
from django.db.models import Q

from django_tasks import logs, signals
from django_tasks.clock import Clock
from django_tasks.handlers import registry
from django_tasks.handlers.registry import get_task_handlers, terms_for
from django_tasks.host.clocks import ticks
from django_tasks.models import Task
from django_tasks.store import control, lanes, search
from django_tasks.store.connection import close_connections, take_connection
from django_tasks.store.control import CancelResult
from django_tasks.values.hosts import is_of_a_host, number_of
from django_tasks.worker import schedule_rows
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.rejected import Rejected

# How soon to try again after an error of the database, in seconds.
RETRY_SECONDS = 1.0
# How often a host's rows are touched. After this time without a touch, the host has gone.
TOUCH_SECONDS = 600.0
HOST_IS_GONE = timedelta(days=1)

# Attends to rows, by the database's time.
Attend = Callable[[datetime, WorkerConfig], None]


def attend_hosts(now: datetime, config: WorkerConfig) -> None:
    """Touch the rows of this host, and remove those of hosts that have gone. Errors pass.

    Not at the start: after a long maintenance all hosts start, and none has touched its rows. It
    plans nothing: a row that a client has cancelled stays away until a worker starts.
    """
    touched = [code for code in get_task_handlers() if _runs_here(code, config)]
    if touched:
        # The count decides nothing: a row that has gone stays away, and one that is owned is fresh.
        here = Q(biz_code__in=touched, biz_num=number_of(config.host))
        control.in_order(here, control.alter, {}, now, using=config.using)
    _forget_others(now - HOST_IS_GONE, config)


def _runs_here(biz_code: str, config: WorkerConfig) -> bool:
    terms = terms_for(biz_code)
    return terms.each_host and config.serves(terms.queue, biz_code)


def _forget_others(before: datetime, config: WorkerConfig) -> None:
    """Remove the rows of hosts whose workers have not touched them since ``before``.

    Race: such a host comes back. It touches its row just before, or makes it again.
    """
    using, own = config.using, number_of(config.host)
    for key in search.of_other_hosts(_codes_on_hosts(using), own, before, using=using):
        if control.discard(search.key(*key), before, using=using):
            logs.host_forgotten(*key, using)
            code, number = key
            result = CancelResult.CANCELLED
            facts = {"biz_code": code, "biz_num": number, "using": using, "result": result}
            signals.tell(signals.task_cancelled, Task, **facts)


def _codes_on_hosts(using: str) -> Collection[str]:
    """The codes, known here, that run on each host or have done so before."""
    found = {lane.biz_code for lane in lanes.look(using=using).lanes if is_of_a_host(lane.queue)}
    return [code for code in get_task_handlers() if code in found or terms_for(code).each_host]


def _look(now: datetime, config: WorkerConfig) -> None:
    schedule_rows.look(now, config)
    if any(terms_for(code).each_host for code in get_task_handlers()):
        attend_hosts(now, config)


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
        now = self._clock.now()
        is_known = now - self._touched < HOST_IS_GONE
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
