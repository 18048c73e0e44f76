"""The place in each lane where the searches of a worker begin.

A claim takes the head of its lane. It leaves behind entries of the index that every later search
from the start of the lane has to pass, until the database has cleaned them up. It must not do so
while somebody holds a snapshot from before: a dump, a report, a forgotten session. After 300,000
tasks such a search took 0.2 s on PostgreSQL and 1 s on MariaDB. So a search begins where the last
claim has found its first row.

Only the time of a search rests on a mark, nothing else does. A row that comes to wait before it is
found by the next full look, see ``Lanes``: at once where full looks are cheap.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import NamedTuple

from django_tasks.store.claim import WHOLE, Share, place_of
from django_tasks.store.finish import Ended
from django_tasks.store.lanes import Lane, Look, Place
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Again, Done, GiveBack, Reschedule, Retry, Unsettled
from django_tasks.wakeup.wake import SLACK

# More lanes than this are forgotten: with a lane for each customer, nothing is known of any.
MOST_LANES = 1000

# Queue, priority and code of a lane.
Key = tuple[str, int, str]


class LaneMarks(NamedTuple):
    """The marks of one lane by the share of its ids, and the last place that one may have now.

    On MariaDB and MySQL workers search shares of their own, which go round. So what one of them
    finds in its share says nothing about the others.
    """

    known: dict[Share, Place]
    latest: Place

    def since(self, share: Share) -> Place | None:
        """The place where a search of this share begins; None: at the start of the lane."""
        whole = self.known.get(WHOLE)
        own = self._of_all_shares() if share == WHOLE else self.known.get(share)
        return max(whole, own) if whole and own else whole or own

    def note(self, share: Share, first: Place | None) -> None:
        """A search has found ``first`` in this share before all else; None: nothing."""
        if share != WHOLE:
            self._keep(lambda other: other.divisor in (1, share.divisor))
        self.known[share] = min(first, self.latest) if first else self.latest

    def _of_all_shares(self) -> Place | None:
        """The first of the marks of all shares; None as long as some have none."""
        marks = [mark for share, mark in self.known.items() if share != WHOLE]
        divisor = max((share.divisor for share in self.known), default=1)
        return min(marks) if marks and len(marks) == divisor else None

    def _keep(self, is_kept: Callable[[Share], bool]) -> None:
        for share in [share for share in self.known if not is_kept(share)]:
            del self.known[share]


class Marks:
    """Used by the poller thread alone."""

    def __init__(self) -> None:
        self._marks: dict[Key, dict[Share, Place]] = {}
        # The first of each lane at the last full look: what was waiting then is not before it.
        self._heads: dict[Key, Place] = {}
        # The lanes in which rows wait again; None: in any of them.
        self._stirred: set[Key] | None = set()

    def take_stirred(self) -> set[Key] | None:
        """The lanes in which rows wait again since the last call; None: it may be any of them."""
        stirred, self._stirred = self._stirred, set()
        return stirred

    def of(self, key: Key, now: datetime) -> LaneMarks:
        """The beginnings of searches of this lane, to be asked and told by a search at ``now``."""
        return LaneMarks(self._marks.setdefault(key, {}), _latest(now))

    def since(self, key: Key) -> Place | None:
        """The place where a search of the whole lane begins; None: at its start."""
        return LaneMarks(self._marks.get(key, {}), _NEVER).since(WHOLE)

    def head(self, key: Key) -> Place | None:
        """The same for a search of rows that have waited for long."""
        return self._heads.get(key)

    def keys(self) -> Iterable[Key]:
        """The lanes of which something is known."""
        return self._marks.keys()

    def note_look(self, found: Look, now: datetime) -> None:
        """A full look has found these lanes. No other had a task that waits, or it is paused."""
        latest = _latest(now)
        known = self._marks if len(self._marks) <= MOST_LANES else ()
        heads = {key: latest for key in known if not found.is_paused(key[0], key[2])}
        for lane in found.lanes:
            # A place later than the last one there may be is not worth making: there may be 2,000.
            is_before = lane.first < latest.when
            heads[key_of(lane)] = Place(lane.first, 0) if is_before else latest
        self._heads = heads
        self._marks = {key: {WHOLE: place} for key, place in heads.items()}

    def note_written(self, ends: Iterable[Ended], moved: set[int]) -> None:
        """These ends are written, and their rows wait again or have gone.

        Those in ``moved`` wait as somebody else has said meanwhile.
        """
        for end in ends:
            key = key_of(end.claimed)
            if end.claimed.id in moved:
                self._stir(key)
                self._marks.pop(key, None)
                self._heads.pop(key, None)
            elif type(end.outcome) is not Done and (place := _place_after(end)):  # most are
                self._stir(key)
                self._lower(key, place)

    def forget(self) -> None:
        """Rows of unknown lanes wait again: begin at the start of each lane, once."""
        self._marks.clear()
        self._heads.clear()
        self._stirred = None

    def _stir(self, key: Key) -> None:
        if self._stirred is not None:
            self._stirred.add(key)

    def _lower(self, key: Key, place: Place) -> None:
        marks = self._marks.get(key, {})
        marks.update({share: min(mark, place) for share, mark in marks.items()})
        if key in self._heads:
            self._heads[key] = min(self._heads[key], place)


def key_of(waits: Lane | Claimed) -> Key:
    return waits.queue, waits.priority, waits.biz_code


_NEVER = Place(datetime.max.replace(tzinfo=timezone.utc), 0)


def _latest(now: datetime) -> Place:
    """The last place that a mark may have: tasks come to wait a little late."""
    return Place(now - SLACK, 0)


def _place_after(end: Ended) -> Place | None:
    claimed, outcome = end.claimed, end.outcome
    if isinstance(outcome, Unsettled):
        outcome = outcome.otherwise
    if isinstance(outcome, GiveBack):
        return place_of(claimed)
    if isinstance(outcome, Again | Reschedule | Retry):
        return Place(outcome.when, claimed.id)
    return None
