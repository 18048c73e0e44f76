"""Rows that were rescued twice: one of them at a time, in one slot of a worker.

Twice their worker died with them in hand. Such a row may be what kills, or it was there by chance:
as a rule it was. So it waits for nobody and nobody waits for it: it takes one slot, at once, and
runs in a process of its own (see ``apart``), whose death is its own.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import partial

from django_tasks.store import claim as store
from django_tasks.store.claim import Claimer
from django_tasks.store.lanes import SUSPICIOUS_RESCUES, Lane, has_suspects
from django_tasks.values.claimed import Claimed
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.gates import Gates
from django_tasks.worker.marks import Marks, key_of

# After this number of claims in a row that brought nothing, perhaps only such rows are left. Then a
# look at each heartbeat is enough: a locked row is looked for many times more.
VAIN_CLAIMS = 2


class Suspects:
    """Used by the poller thread alone."""

    def __init__(self, using: str, gates: Gates, finisher: Finisher, marks: Marks) -> None:
        self._using = using
        self._marks = marks
        self._gates = gates
        self._finisher = finisher
        self._is_look_due = False
        # Where some were seen, and the one that is in hand.
        self._lane: Lane | None = None
        self._in_hand: Claimed | None = None

    def look_soon(self) -> None:
        """At the next claim, look for such rows at the heads of the lanes."""
        self._is_look_due = True

    def look(self, due: Iterable[Lane], now: datetime, in_vain: int) -> None:
        """Note a lane whose head has such rows, if it is time to look. Database errors pass."""
        if self._is_look_due or in_vain == VAIN_CLAIMS or self._has_one_ended():
            self._is_look_due = False
            self._lane = next((lane for lane in due if self._has_some(lane, now)), None)

    def take_lane(self) -> Lane | None:
        """The lane where some were seen, once, if one of them may be claimed now."""
        lane, self._lane = self._lane, None
        if lane is None or self._is_one_in_hand() or not self._gates.is_open(lane):
            return None
        return lane

    def claim(self, claimer: Claimer, lane: Lane, now: datetime) -> list[Claimed]:
        """Claim one from ``lane``; steps over what somebody holds locked."""
        since, using = self._marks.head(key_of(lane)), self._using
        take = partial(
            store.claim_alone, claimer, lane, now, using=using, careful=True, since=since
        )
        if self._gates.has_limit(lane):
            claims = self._gates.claim(lane, now, lambda _: take())
        else:
            claims = take()
        self._in_hand = claims[0] if claims else None
        return claims

    def _has_some(self, lane: Lane, now: datetime) -> bool:
        since = self._marks.head(key_of(lane))
        return has_suspects(lane, now, using=self._using, since=since)

    def _has_one_ended(self) -> bool:
        """Tell, once, that the one in hand has ended: the next one may come."""
        has_ended = self._in_hand is not None and not self._is_one_in_hand()
        if has_ended:
            self._in_hand = None
        return has_ended

    def _is_one_in_hand(self) -> bool:
        return self._in_hand is not None and self._finisher.holds(self._in_hand)


def is_suspect(claimed: Claimed) -> bool:
    """Tell if a claim is to run in a process of its own."""
    return claimed.rescues >= SUSPICIOUS_RESCUES
