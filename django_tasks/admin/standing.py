"""The state of tasks of a list: what holds them back, who runs them, and how late they are.

All is asked for a whole page at once: many rows take as many statements as one does.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext

from django_tasks import api
from django_tasks.conf import options
from django_tasks.exceptions import TaskException
from django_tasks.handlers.finders import has_handler
from django_tasks.handlers.registry import handler_for
from django_tasks.host.clocks import EPOCH
from django_tasks.models import Gate, Task, WorkerRow
from django_tasks.monitoring.filters import LATE_SECONDS
from django_tasks.monitoring.workers import name_of
from django_tasks.store import clock
from django_tasks.store.pauses import PauseIndex
from django_tasks.timezones import aware
from django_tasks.values.limits import as_limit
from django_tasks.values.status import OWNED, Status

# Rows of workers that are read: dead ones are deleted by the others soon enough.
MOST_WORKERS = 1000
MOST_OWNED = 10_000


@dataclass(frozen=True)
class Standing:
    """The facts about one task beside its columns. ``late``: seconds, 0 if it is not."""

    late: float = 0.0
    no_handler: bool = False
    paused: str = ""
    limited: str = ""
    worker: str = ""


@dataclass(frozen=True)
class Surroundings:
    """The facts that a page of tasks is judged by."""

    now: datetime
    held: PauseIndex
    workers: dict[int, str]
    served: frozenset[str]
    limited: dict[str, str]

    def of(self, task: Task) -> Standing:
        waits = task.status == Status.PENDING
        paused = self._pause(task) if waits else ""
        seconds = (self.now - aware("when", task.when)).total_seconds()
        is_late = waits and not paused and seconds > LATE_SECONDS
        return Standing(
            late=seconds if is_late else 0.0,
            no_handler=task.biz_code not in self.served and not known_here(task.biz_code),
            paused=paused,
            limited=self.limited.get(task.biz_code, "") if waits and seconds >= 0 else "",
            worker=self._worker(task),
        )

    def _pause(self, task: Task) -> str:
        pause = self.held.widest(task.queue, task.biz_code)
        if pause is None:
            return ""
        if pause.biz_code:
            return gettext("code paused")
        return gettext("queue paused") if pause.queue else gettext("everything paused")

    def _worker(self, task: Task) -> str:
        if task.claimed_by is None:
            return ""
        gone = gettext("%(id)d (gone)") % {"id": task.claimed_by}
        return self.workers.get(task.claimed_by, gone)


def known_here(biz_code: str) -> bool:
    """Tell if this project has a handler, or is not to ask."""
    return options().strict_codes == "off" or has_handler(biz_code)


def surroundings(tasks: Iterable[Task], *, named: bool, using: str) -> Surroundings:
    """Look up what these tasks are to be judged by; ``named``: with the names of workers."""
    now = clock.now(using)
    workers = list(WorkerRow._base_manager.using(using).order_by("-id")[:MOST_WORKERS])
    alive = [
        worker
        for worker in workers
        if now <= aware("heartbeat", worker.heartbeat) + timedelta(seconds=worker.lease)
    ]
    return Surroundings(
        now=now,
        held=PauseIndex(api.paused(using=using)),
        workers={worker.pk: name_of(worker, named) for worker in workers},
        served=frozenset(code for worker in alive for code in _codes(worker)),
        limited=_limited({task.biz_code for task in tasks}, now, using),
    )


def _codes(worker: WorkerRow) -> list[str]:
    codes: Any = worker.codes
    return [code for code in codes if isinstance(code, str)] if isinstance(codes, list) else []


def _limited(codes: set[str], now: datetime, using: str) -> dict[str, str]:
    of_codes = Gate._base_manager.using(using).filter(biz_code__in=codes)
    gates = {gate.biz_code: gate for gate in of_codes}
    limits = {code: _limits(code, gates.get(code)) for code in codes}
    counted = any(most is not None for most, _rate in limits.values())
    running = _running(using) if counted else Counter()
    moment = (now - EPOCH) // timedelta(microseconds=1)
    said: dict[str, str] = {}
    for code, (most, rate) in limits.items():
        full_until = gates[code].full_until if code in gates else 0
        if words := _closed(most, rate, running[code], full_until, moment):
            said[code] = words
    return said


def _limits(code: str, gate: Gate | None) -> tuple[int | None, str | None]:
    handler = handler_for(code)
    most = getattr(handler, "max_running", None)
    rate = getattr(handler, "rate_limit", None)
    if gate is None:
        return most, rate
    return (
        most if gate.max_running is None else gate.max_running,
        rate if gate.rate_limit is None else gate.rate_limit,
    )


def _running(using: str) -> Counter[str]:
    """The number of claimed tasks of each code.

    Counted here: asked for those of some codes, SQLite took the index of keys and looked at each of
    a million rows. Only as many are claimed as the workers have threads.
    """
    owned = Task._base_manager.using(using).filter(status__in=OWNED).order_by()
    return Counter(owned.values_list("biz_code", flat=True)[:MOST_OWNED])


def _closed(most: int | None, rate: str | None, running: int, full_until: int, moment: int) -> str:
    try:
        limit = as_limit(most, rate)
    except TaskException:  # what somebody has written there by hand
        return ""
    if limit is None or limit.opening(running, full_until, moment).starts:
        return ""
    if most is not None and running >= most:
        return gettext("limit: %(count)d at once") % {"count": most}
    return gettext("limit: %(rate)s") % {"rate": rate}
