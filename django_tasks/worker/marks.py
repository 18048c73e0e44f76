"""The place in each lane where the searches of a worker begin.

A claim takes the head of its lane. It leaves behind entries of the index that every later search
from the start of the lane has to pass, until the database has cleaned them up. It must not do so
while somebody holds a snapshot from before: a dump, a report, a forgotten session. After 300,000
tasks such a search took 0.2 s on PostgreSQL and 1 s on MariaDB. So a search begins where the last
claim has found its first row.

Only the time of a search rests on a mark, nothing else does. A row that comes to wait before it is
found by the next full look, see ``Lanes``: at once where full looks are cheap.
"""

from collections.abc import Iterable
from datetime import datetime

from django_tasks.store.claim import place_of
from django_tasks.store.finish import Ended
from django_tasks.store.lanes import Lane, Look, Place
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Again, Done, GiveBack, Reschedule, Retry, Unsettled
from django_tasks.wakeup.wake import SLACK

# More lanes than this are forgotten: with a lane for each customer, nothing is known of any.
MOST_LANES = 1000

# Queue, priority and code of a lane.
Key = tuple[str, int, str]


class Marks:
    """Used by the poller thread alone."""

    def __init__(self) -> None:
        self._marks: dict[Key, Place] = {}
        # The first of each lane at the last full look: what was waiting then is not before it.
        self._heads: dict[Key, Place] = {}

    def since(self, key: Key) -> Place | None:
        """The place where a search of this lane begins; None: at its start."""
        return self._marks.get(key)

    def head(self, key: Key) -> Place | None:
        """The same for a search of rows that have waited for long."""
        return self._heads.get(key)

    def keys(self) -> Iterable[Key]:
        """The lanes of which something is known."""
        return self._marks.keys()

    def note_look(self, found: Look, now: datetime) -> None:
        """A full look has found these lanes. No other had a task that waits, or it is paused."""
        first = {key_of(lane): _not_after(Place(lane.first, 0), now) for lane in found.lanes}
        known = self._marks if len(self._marks) <= MOST_LANES else ()
        empty = {key: _latest(now) for key in known if not found.is_paused(key[0], key[2])}
        self._marks = {**empty, **first}
        self._heads = self._marks.copy()

    def note_claims(self, lane: Lane, claims: list[Claimed], now: datetime) -> None:
        """A claim has found these, the first one first."""
        if claims:
            self._marks[key_of(lane)] = _not_after(place_of(claims[0]), now)

    def note_written(self, ends: Iterable[Ended], moved: set[int]) -> None:
        """These ends are written, and their rows wait again or have gone.

        Those in ``moved`` wait as somebody else has said meanwhile.
        """
        for end in ends:
            if end.claimed.id in moved:
                self._forget(end.claimed)
            elif type(end.outcome) is not Done and (place := _place_after(end)):  # most are
                self._lower(end.claimed, place)

    def forget(self) -> None:
        """Rows of unknown lanes wait again: begin at the start of each lane, once."""
        self._marks.clear()
        self._heads.clear()

    def _forget(self, claimed: Claimed) -> None:
        for places in (self._marks, self._heads):
            places.pop(key_of(claimed), None)

    def _lower(self, claimed: Claimed, place: Place) -> None:
        for places in (self._marks, self._heads):
            if (mark := places.get(key_of(claimed))) and place < mark:
                places[key_of(claimed)] = place


def key_of(waits: Lane | Claimed) -> Key:
    return waits.queue, waits.priority, waits.biz_code


def _latest(now: datetime) -> Place:
    """The last place that a mark may have: tasks come to wait a little late."""
    return Place(now - SLACK, 0)


def _not_after(place: Place, now: datetime) -> Place:
    return min(place, _latest(now))


def _place_after(end: Ended) -> Place | None:
    """The place where the row waits after this end; None if it does not wait."""
    claimed, outcome = end.claimed, end.outcome
    if isinstance(outcome, Unsettled):
        outcome = outcome.otherwise
    if isinstance(outcome, GiveBack):
        return place_of(claimed)
    if isinstance(outcome, Again | Reschedule | Retry):
        return Place(outcome.when, claimed.id)
    return None
