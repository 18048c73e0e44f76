"""The state of tasks of a list: what holds them back, who runs them, and how late they are.

All is asked for a whole page at once: many rows take as many statements as one does.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext, gettext_lazy

from django_tasks import api
from django_tasks.conf import options
from django_tasks.handlers.finders import has_handler
from django_tasks.models import Gate, Task
from django_tasks.reads.codes import limit_of, opening, rate_text
from django_tasks.reads.filters import LATE_SECONDS
from django_tasks.reads.workers import WorkerState, name_of, obstacle, workers
from django_tasks.store import clock
from django_tasks.store.pauses import PauseIndex
from django_tasks.timezones import aware
from django_tasks.values.limits import Limit
from django_tasks.values.status import OWNED, Status

MOST_OWNED = 10_000

# By the kinds of ``obstacle``.
_NOBODY = {
    "no worker": gettext_lazy("no worker"),
    "queue": gettext_lazy("queue not served"),
    "handler": gettext_lazy("no handler"),
    "quiet": gettext_lazy("workers quiet"),
}


@dataclass(frozen=True)
class ListedState:
    """The facts about one task beside its columns. ``late``: seconds, 0 if it is not. ``nobody``:
    why no worker takes it.
    """

    late: float = 0.0
    nobody: str = ""
    paused: str = ""
    limited: str = ""
    worker: str = ""


@dataclass(frozen=True)
class Surroundings:
    """The facts that a page of tasks is judged by."""

    now: datetime
    held: PauseIndex
    workers: Sequence[WorkerState]
    named: bool
    limited: dict[str, str]

    def of(self, task: Task) -> ListedState:
        waits = task.status == Status.PENDING
        paused = self._pause(task) if waits else ""
        seconds = (self.now - aware("when", task.when)).total_seconds()
        is_late = waits and not paused and seconds > LATE_SECONDS
        return ListedState(
            late=seconds if is_late else 0.0,
            nobody=self._nobody(task, is_due=waits and not paused and seconds >= 0),
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
        owners = (each for each in self.workers if each.id == task.claimed_by)
        return next((name_of(each, self.named) for each in owners), gone)

    def _nobody(self, task: Task, *, is_due: bool) -> str:
        kind = obstacle(self.workers, task.queue, task.biz_code)[0] if is_due else ""
        code, alive = task.biz_code, [worker for worker in self.workers if worker.is_alive]
        if not (kind or known_here(code) or any(worker.knows(code) for worker in alive)):
            kind = "handler"
        return str(_NOBODY[kind]) if kind else ""


def known_here(biz_code: str) -> bool:
    """Tell if this project has a handler, or is not to ask."""
    return options().strict_codes == "off" or has_handler(biz_code)


def surroundings(tasks: Iterable[Task], *, named: bool, using: str) -> Surroundings:
    """Look up what these tasks are to be judged by; ``named``: with the names of workers."""
    now = clock.now(using)
    return Surroundings(
        now=now,
        held=PauseIndex(api.paused(using=using)),
        workers=workers(using=using, now=now),
        named=named,
        limited=_limited({task.biz_code for task in tasks}, now, using),
    )


def _limited(codes: set[str], now: datetime, using: str) -> dict[str, str]:
    of_codes = Gate._base_manager.using(using).filter(biz_code__in=codes)
    gates = {gate.biz_code: gate for gate in of_codes}
    limits = {code: limit_of(code, gates.get(code)) for code in codes}
    counted = any(limit.max_running is not None for limit in limits.values())
    running = _running(using) if counted else Counter()
    said: dict[str, str] = {}
    for code, limit in limits.items():
        if not opening(limit, gates.get(code), running[code], now).starts:
            said[code] = _closed(limit, running[code])
    return said


def _running(using: str) -> Counter[str]:
    """The number of claimed tasks of each code.

    Counted here: asked for those of some codes, SQLite took the index of keys and looked at each of
    a million rows. Only as many are claimed as the workers have threads.
    """
    owned = Task._base_manager.using(using).filter(status__in=OWNED).order_by()
    return Counter(owned.values_list("biz_code", flat=True)[:MOST_OWNED])


def _closed(limit: Limit, running: int) -> str:
    if limit.max_running is not None and running >= limit.max_running:
        return gettext("limit: %(count)d at once") % {"count": limit.max_running}
    return gettext("limit: %(rate)s") % {"rate": rate_text(limit.rate)}
