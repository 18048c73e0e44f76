"""The lanes that a worker serves: found by a look now and then, and relied on in between."""

from datetime import datetime

from django_tasks import logs
from django_tasks.clock import Clock
from django_tasks.handlers.registry import get_task_handlers, terms_for
from django_tasks.store import lanes as store
from django_tasks.store.lanes import LANES_AT_ONCE, Lane, Place
from django_tasks.store.pauses import Scope
from django_tasks.values.hosts import is_of_a_host, queue_of
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.last_look import LastLook
from django_tasks.worker.marks import Key, Marks
from django_tasks.worker.missing_handlers import UnknownCodes

# As long as claims come back full, a more urgent task can wait for a moment: this long between two
# looks for lanes; and where looks take long (PostgreSQL's walk over deleted rows, until it is
# vacuumed) as long as keeps them to this share of the time, but no longer than a fifth of a second.
LANES_SECONDS = 0.02
LANES_SHARE = 0.02
LONGEST_LANES_SECONDS = 0.2
# A look from the start of each lane that takes longer than this is dear: deleted rows lie there
# that cannot be cleaned up yet. Looks begin at the marks then, and full ones keep to this share of
# the time, or to the second one while hints announce tasks that may wait before a mark. One that
# no hint announces is found after this many seconds at the latest.
DEAR_SECONDS = 0.005
FULL_SHARE = 0.005
HINTED_SHARE = 0.05
LONGEST_FULL_SECONDS = 60.0
# A look from the marks is given up, and a full one follows, when it would take more than this share
# of the time of that: where there are many lanes, or a long way to the server, full looks are dear
# and yet the cheaper ones. Looks in vain keep to the share of full ones, until these take twice as
# long as when the last one was in vain.
ALONG_SHARE = 0.5


class Lanes:
    """Used by the poller thread alone."""

    def __init__(self, config: WorkerConfig, clock: Clock, marks: Marks) -> None:
        self._config = config
        self._clock = clock
        self._marks = marks
        self._host_queue = queue_of(config.host)
        # The seconds that the last full look took, and the lesser of the last two, now and when a
        # look from the marks was in vain; the time of the next one where that is dear, and of the
        # next one from the marks.
        self._full_cost = self._cost = self._vain_cost = 0.0
        self._next_full = self._next_hinted = self._next_along = float("-inf")
        # Found by the last look and not used up, the time of the next look, and whether the last
        # claim has left due tasks behind.
        self._known: list[Lane] = []
        self._next_look = float("-inf")
        self._last = LastLook(config.using, config.poll_interval, clock, marks)
        self._has_more = False
        self._unknown = UnknownCodes(config.using)
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
        if not self._has_more or self._clock.monotonic() > self._next_look:
            known = self._last.lanes()
            self._known = self._look_anew(now) if known is None else known
        return self._known

    def until_poll(self) -> float:
        """Seconds after which to come again for what is added meanwhile."""
        return self._last.until_poll()

    def rely(self) -> None:
        """Take it that claims leave due tasks behind, unless ``use_up`` says otherwise.

        Lanes that were foreseen are not known any more: a look must tell what else is due.
        """
        self._has_more = bool(self._known)

    def use_up(self, lane: Lane | None = None) -> None:
        """A claim from ``lane`` has found less than it wanted: ask before the next one.

        For this lane at least. None: for all, as the claim has found nothing.
        """
        self._has_more, self._known = False, []
        if lane is None:
            self._last.forget()
        else:
            self._last.touch(lane)

    def heed_hint(self) -> None:
        """Tasks were added: look for them, at once where that is cheap."""
        self._last.heed_hint()

    def look_far_back(self) -> None:
        """Tasks wait that may be before the marks: have a full look soon, where that is dear."""
        self._has_more = False
        self._last.forget()
        self._next_full = min(self._next_full, self._next_hinted)

    def may_find_more(self) -> bool:
        """Tell if due tasks may be for this worker whose handler is still looked for."""
        return self._unknown.is_searching()

    def doubt(self) -> bool:
        """Look before the next claim; tell if lanes were relied on until now."""
        relied, self._has_more = self._has_more, False
        if relied:
            self._last.forget()
        return relied

    def _look_anew(self, now: datetime) -> list[Lane]:
        begun = self._clock.monotonic()
        lanes = self._look(now)
        if self._config.until_empty and not any(lane.first <= now for lane in lanes):
            lanes = self._full_look(now)
        took = self._clock.monotonic() - begun
        is_dear = min(took, self._cost) > DEAR_SECONDS and not self._config.until_empty
        self._last.note(lanes, took, is_dear=is_dear)
        fair = min(LONGEST_LANES_SECONDS, max(LANES_SECONDS, took / LANES_SHARE))
        self._next_look = begun + took + fair
        return lanes

    def _look(self, now: datetime) -> list[Lane]:
        begun = self._clock.monotonic()
        is_worth_a_try = self._next_along <= begun or self._cost > 2 * self._vain_cost
        if is_worth_a_try and begun < self._next_full:
            lanes = self._look_along(begun)
            if lanes is not None:
                return lanes
            ended = self._clock.monotonic()
            vain = (ended - begun) / FULL_SHARE
            self._next_along = ended + min(LONGEST_FULL_SECONDS, vain)
            self._vain_cost = self._cost
        return self._full_look(now)

    def _look_along(self, begun: float) -> list[Lane] | None:
        """The lanes, sought from the marks on; None if that takes too long."""
        places = self._places()
        found: list[Lane] = []
        pauses: frozenset[Scope] = frozenset()
        longest = 0.0
        for first in range(0, max(1, len(places)), LANES_AT_ONCE):
            asked = self._clock.monotonic()
            if asked + longest > begun + self._cost * ALONG_SHARE:
                return None
            some = dict(places[first : first + LANES_AT_ONCE])
            lanes, pauses = store.look_along(some, using=self._config.using)
            longest = max(longest, self._clock.monotonic() - asked)
            found += lanes
        self._tell_pauses(pauses)
        return store.in_order(found)

    def _places(self) -> list[tuple[Key, Place | None]]:
        handlers = get_task_handlers()
        own = [key for code in handlers for key in self._lanes_of(code)]
        keys = {key for key in [*own, *self._marks.keys()] if key[2] in handlers}
        served = [key for key in keys if is_served(key[0], key[2], self._config)]
        return [(key, self._marks.since(key)) for key in served]

    def _full_look(self, now: datetime) -> list[Lane]:
        begun = self._clock.monotonic()
        found = store.look(using=self._config.using)
        self._note_cost(begun, self._clock.monotonic())
        self._marks.note_look(found, now)
        lanes, pauses = found
        self._tell_pauses(pauses)
        handlers, config = get_task_handlers(), self._config
        served = [lane for lane in lanes if is_served(lane.queue, lane.biz_code, config)]
        for lane in served:
            if lane.biz_code not in handlers and lane.first <= now:
                self._unknown.meet(lane, now)
        return [lane for lane in served if lane.biz_code in handlers]

    def _note_cost(self, begun: float, ended: float) -> None:
        """One look that took long may have waited for something else: two in a row are dear."""
        took, before = ended - begun, self._full_cost
        self._full_cost = took
        cost = self._cost = min(took, before)
        if cost > DEAR_SECONDS:
            self._next_full = ended + min(LONGEST_FULL_SECONDS, cost / FULL_SHARE)
            self._next_hinted = ended + min(LONGEST_FULL_SECONDS, cost / HINTED_SHARE)
        else:
            self._next_full = self._next_hinted = float("-inf")

    def _lanes_of(self, biz_code: str) -> list[Key]:
        terms = terms_for(biz_code)
        queues = [terms.queue, self._host_queue] if terms.each_host else [terms.queue]
        return [(queue, terms.priority, biz_code) for queue in queues]

    def _tell_pauses(self, pauses: frozenset[Scope]) -> None:
        if pauses != self._pauses:
            for scope in sorted(self._pauses - pauses):
                logs.resumed(self._config.using, *scope)
            for scope in sorted(pauses - self._pauses):
                logs.paused(self._config.using, *scope)
            self._pauses = pauses


def is_served(queue: str, biz_code: str, config: WorkerConfig) -> bool:
    """Tell if a worker is for the tasks of a code in a queue."""
    if not is_of_a_host(queue):
        return config.serves(queue, biz_code)
    # A worker of some queues serves, on its host, the handlers of these.
    return queue == queue_of(config.host) and (
        config.serves(queue, biz_code) or config.serves(terms_for(biz_code).queue, biz_code)
    )
