"""The choice of the next claims: what is due and fits."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import takewhile
from random import random

from django_tasks.handlers.registry import terms_for
from django_tasks.store.claim import Claimer
from django_tasks.store.finish import Ended
from django_tasks.store.lanes import LANES_AT_ONCE, Lane
from django_tasks.values.claimed import Claimed
from django_tasks.worker.active import Active
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.executor import Executor, Item
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.gates import Gates
from django_tasks.worker.idling import Idling
from django_tasks.worker.lane_claims import LaneClaims
from django_tasks.worker.lanes import Lanes
from django_tasks.worker.marks import Marks
from django_tasks.worker.membership import Membership
from django_tasks.worker.suspects import Suspects


class Claiming:
    """Claims for one worker. Used by the poller thread alone."""

    def __init__(
        self,
        config: WorkerConfig,
        membership: Membership,
        executor: Executor,
        finisher: Finisher,
        marks: Marks,
        active: Active,
        unsure: Callable[[], None] = lambda: None,
    ) -> None:
        """``unsure`` is called when a claim may have been stored although it has failed."""
        self._config = config
        self._membership = membership
        self._executor = executor
        self._finisher = finisher
        self._gates = Gates(config, membership, active)
        self._suspects = Suspects(config.using, self._gates, finisher, marks)
        self._lanes = Lanes(config, membership.clock, marks)
        self._lane_claims = LaneClaims(config, self._gates, self._suspects, marks, unsure)
        self._idling = Idling(config, membership, self._lane_claims.closed_for)
        # How many it has claimed, now and when it last read the limits that operators have set.
        self._claimed = self._claimed_at_read = 0
        self.nothing_due = False

    def has_had_enough(self) -> bool:
        """Tell if ``max_tasks`` have been claimed."""
        return self._left() <= 0

    def look_for_suspects(self) -> None:
        """At the next claim, look if a lane's head holds rows that were rescued twice."""
        self._suspects.look_soon()

    def heed_hint(self) -> None:
        """Tasks were added: look for them before long."""
        self._lanes.heed_hint()

    def look_far_back(self) -> None:
        """Tasks that were due for a while already wait now: look for them before long."""
        self._lanes.look_far_back()

    def limits_may_differ(self, *, hinted: bool = False) -> None:
        """Read the limits of operators again before the next claim; after a mere hint, soon."""
        self._gates.limits_may_differ(hinted=hinted)

    def note_ends(self, ended: list[Ended]) -> None:
        """Runs have ended here, and their ends have been written."""
        self._gates.note_ends(ended)

    def note_given_back(self, claims: list[Claimed]) -> None:
        """Claims that no thread has started go back: they have used up no start of a rate."""
        self._gates.note_given_back(claims)

    def claim(self, *, careful: bool) -> float:
        """Claim what is due and fits; returns the seconds until there may be more to do."""
        room = self._room()
        if room == 0 or not self._membership.is_valid():
            # The end of a run wakes us sooner, and so does a heartbeat. Without a lease nothing may
            # start: what is claimed would be given back at once, and claimed again.
            return self._config.poll_interval
        now = self._membership.clock.now()
        foreseen = self._foreseen(now)
        now = max([now, *(lane.first for lane in foreseen)])
        lanes = foreseen or self._lanes.recent(now)
        due = [lane for lane in lanes if lane.first <= now]
        self.nothing_due = not due and not self._lanes.may_find_more()
        self._read_limits(bool(due))
        due = self._open(due)
        if not due:
            # Lanes that we have known for a while are no reason to sleep.
            again = self._lanes.doubt() and not self.nothing_due
            until_first = self._idling.until_first(lanes)
            return 0.0 if again else min(until_first, self._lanes.until_poll())
        taken = self._claim_due(due, now, room, careful)
        due = self._open(due)
        self._idling.note_round(taken, is_contested=bool(due))
        self._suspects.look(due, now, self._idling.in_vain)
        if taken or foreseen or not due:
            return 0.0
        return min(self._idling.until_contested(lanes, due, now), self._lanes.until_poll())

    def _read_limits(self, is_due: bool) -> None:
        """Read the limits of operators if it is time, and this worker claims, or is about to.

        One that has claimed since the last time reads them as soon as it may, so that no task has
        to wait for that; one that has not, for something to be due: idle, it would read in vain.
        """
        if (is_due or self._claimed > self._claimed_at_read) and self._gates.read_if_due():
            self._claimed_at_read = self._claimed

    def _foreseen(self, now: datetime) -> list[Lane]:
        soon = now + timedelta(seconds=self._idling.lead)
        return [lane for lane in self._lanes.foreseen(soon) if self._gates.is_open(lane)]

    def _open(self, lanes: list[Lane]) -> list[Lane]:
        return [lane for lane in lanes if self._lane_claims.is_open(lane)]

    def _claim_due(self, due: list[Lane], now: datetime, room: int, careful: bool) -> int:
        suspects = self._lane_claims.claim_suspect(self._claimer(), now)
        items = self._start(suspects, 1, first=True)
        return items + self._claim_from(due, now, room - items, careful)

    def _claim_from(self, due: list[Lane], now: datetime, room: int, careful: bool) -> int:
        """Claim as many as fit into ``room`` items; the number of items that were made of them.

        What is left of ``due`` changes its order where another worker was quicker.
        """
        taken, place, claimer, is_in_order = 0, 0, self._claimer(), True
        # First one lane: its tasks are the most urgent, and as a rule there is no other.
        at_once, most_at_once = 1, 1 if careful else LANES_AT_ONCE
        self._lanes.rely()
        while place < len(due) and taken < room and not self.has_had_enough():
            lanes = self._claimable(due[place : place + at_once])
            if not lanes:
                place += 1
                continue
            claims, items = self._claim_some(claimer, lanes, now, room - taken, careful)
            if not claims:  # which one is to blame is known when each is asked by itself
                at_once = most_at_once = 1
                continue
            at_once = min(2 * at_once, most_at_once)
            taken += items
            place += len(claims)
            empty = [lane for lane, some in zip(lanes, claims, strict=False) if not some]
            if is_in_order and any(map(self._gates.is_open, empty)):
                is_in_order = False
                due[place:] = _parted(due[place:])
        return taken

    def _claimable(self, lanes: list[Lane]) -> list[Lane]:
        """The first lanes from which one statement may claim; none if the first one is closed.

        A lane that has to pass a gate, or whose tasks are called together, goes by itself.
        """

        def is_plain(lane: Lane) -> bool:
            return terms_for(lane.biz_code).batch == 1 and not self._gates.has_limit(lane)

        is_open = self._gates.is_open
        plain = takewhile(lambda lane: is_plain(lane) and is_open(lane), lanes)
        return list(plain) or [lane for lane in lanes[:1] if is_open(lane)]

    def _claim_some(
        self, claimer: Claimer, lanes: list[Lane], now: datetime, room: int, careful: bool
    ) -> tuple[list[list[Claimed]], int]:
        """The claims of each lane, none after an error of several; and the number of items."""
        batch = terms_for(lanes[0].biz_code).batch
        fitting = min(room * batch, self._left())
        portions = [(lane, self._lane_claims.portion(lane, fitting)) for lane in lanes]
        begun = self._membership.clock.monotonic()
        if len(lanes) == 1:
            claim = self._lane_claims.claim
            claims = [claim(claimer, lanes[0], now, portions[0][1], careful=careful)]
        else:
            claims = self._lane_claims.claim_together(claimer, portions, now, fitting)
        self._idling.note_claim((self._membership.clock.monotonic() - begun) / len(lanes))
        items = 0
        for (lane, portion), some in zip(portions, claims, strict=False):
            items += self._start(some, batch, first=self._gates.has_limit(lane))
            if len(some) < portion and self._gates.is_open(lane):
                self._lanes.use_up(lane if some else None)
        return claims, items

    def _start(self, claims: list[Claimed], batch: int, *, first: bool) -> int:
        """Hand over what was claimed, perhaps a moment before it is due: its thread waits for that.

        Returns the number of items.

        Nothing here can fail or wait: a claim that is held and not handed over would never start.
        """
        if not claims:
            return 0
        # Held before they start: an end must find its claim.
        self._finisher.hold(claims)
        self._claimed += len(claims)
        items = _items_of(claims, batch)
        self._executor.submit(items, first=first)
        return len(items)

    def _room(self) -> int:
        return max(0, min(self._executor.room(self._config.batch_size), self._left()))

    def _left(self) -> int:
        if self._config.max_tasks is None:
            return self._config.batch_size + self._config.threads
        started = self._claimed - self._finisher.counters["given back"]
        return self._config.max_tasks - started

    def _claimer(self) -> Claimer:
        membership = self._membership
        return Claimer(membership.worker_id, max(1, len(membership.living())), membership.rank())


def _parted(lanes: list[Lane]) -> list[Lane]:
    """By priority as before, and by chance among equals: somebody else has just taken what was due.

    Workers that walk the same lanes in the same order find each of them empty, one after the other.
    """
    return sorted(lanes, key=lambda lane: (-lane.priority, random()))


def _items_of(claims: list[Claimed], batch: int) -> list[Item]:
    return [tuple(claims[start : start + batch]) for start in range(0, len(claims), batch)]
