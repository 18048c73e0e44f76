"""The lanes that a worker serves: found by a look now and then, and relied on in between."""

from datetime import datetime

from django_tasks import logs
from django_tasks.clock import Clock
from django_tasks.handlers.registry import get_task_handlers
from django_tasks.store import lanes as store
from django_tasks.store.lanes import Lane
from django_tasks.store.pauses import Scope
from django_tasks.worker.config import WorkerConfig

# As long as claims come back full, a more urgent task can wait for a moment: this long between two
# looks for lanes; and where looks take long (PostgreSQL's walk over deleted rows, until it is
# vacuumed) as long as keeps them to this share of the time, but no longer than a fifth of a second.
LANES_SECONDS = 0.02
LANES_SHARE = 0.02
LONGEST_LANES_SECONDS = 0.2


class Lanes:
    """Used by the poller thread alone."""

    def __init__(self, config: WorkerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        # Found by the last look and not used up, the time of the next look, and whether the last
        # claim has left due tasks behind.
        self._known: list[Lane] = []
        self._next_look = float("-inf")
        self._has_more = False
        self._known_unknown: set[str] = set()
        # Paused at the last look.
        self._pauses: frozenset[Scope] = frozenset()

    def foreseen(self, soon: datetime) -> list[Lane]:
        """Lanes that the worker has slept for, once: known without a look, a statement sooner."""
        if self._has_more:
            return []
        known, self._known = self._known, []
        return [lane for lane in known if lane.first <= soon]

    def recent(self, now: datetime) -> list[Lane]:
        """The lanes of the last look, or of a new one if it is time for that."""
        begun = self._clock.monotonic()
        if not self._has_more or begun > self._next_look:
            self._known = self._look(now)
            ended = self._clock.monotonic()
            fair = (ended - begun) / LANES_SHARE
            self._next_look = ended + min(LONGEST_LANES_SECONDS, max(LANES_SECONDS, fair))
        return self._known

    def rely(self) -> None:
        """Take it that claims leave due tasks behind, unless ``use_up`` says otherwise."""
        self._has_more = True

    def use_up(self) -> None:
        """A claim has found less than it wanted: look for lanes before the next one."""
        self._has_more, self._known = False, []

    def doubt(self) -> bool:
        """Look before the next claim; tell if lanes were relied on until now."""
        relied, self._has_more = self._has_more, False
        return relied

    def _look(self, now: datetime) -> list[Lane]:
        """The lanes that have pending tasks, are not paused, and are for this worker."""
        lanes, pauses = store.look(using=self._config.using)
        self._tell_pauses(pauses)
        handlers = get_task_handlers()
        for lane in lanes:
            if lane.biz_code not in handlers and lane.first <= now:
                self._warn_of_unknown(lane, now)
        return [lane for lane in lanes if lane.biz_code in handlers and self._serves(lane)]

    def _serves(self, lane: Lane) -> bool:
        queues, codes = self._config.queues, self._config.codes
        return (not queues or lane.queue in queues) and (not codes or lane.biz_code in codes)

    def _tell_pauses(self, pauses: frozenset[Scope]) -> None:
        """Say what has begun and what has ended since the last look."""
        if pauses != self._pauses:
            for scope in sorted(self._pauses - pauses):
                logs.resumed(self._config.using, *scope)
            for scope in sorted(pauses - self._pauses):
                logs.paused(self._config.using, *scope)
            self._pauses = pauses

    def _warn_of_unknown(self, lane: Lane, now: datetime) -> None:
        """Never claimed, never deleted: a newer worker will know the code. Said once."""
        if lane.biz_code not in self._known_unknown:
            self._known_unknown.add(lane.biz_code)
            due = store.count_due(lane, now, using=self._config.using)
            logs.unknown_code(self._config.using, lane.biz_code, due)
