"""From times on a wall clock to instants: what happens where clocks are put forward or back.

Times of day are enumerated without regard for daylight saving time, and mapped here. On an
ordinary day a time has one instant. In a *gap* it does not exist: clocks jump over it. In a *fold*
it comes twice: clocks go back, and show that hour again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from math import ceil
from typing import Literal

from django_tasks.schedules.arguments import TICK, UTC, one_of, zone

Gap = Literal["skip", "next", "shift"]
Fold = Literal["first", "second", "both"]
GAPS: tuple[Gap, ...] = ("skip", "next", "shift")
FOLDS: tuple[Fold, ...] = ("first", "second", "both")

# The first naive wall time strictly later than a naive one, or None.
Walls = Callable[[datetime], datetime | None]

# The longest gap there has been, at the date line.
DAY = timedelta(days=1)
NOTHING = timedelta(0)

# Of walls that are all in gaps, no more are looked at. February 29 on a Monday comes every 28
# years, or after 40 around 2100.
GIVE_UP = timedelta(days=50 * 366)


@dataclass(frozen=True)
class WallClock:
    """A zone, and what to do with times that it skips or shows twice.

    ``gap``   skip: no fire; next: the first instant after the gap; shift: later by its length
    ``fold``  the first of both, the second, or both
    """

    tz: str
    gap: Gap
    fold: Fold

    def first(self, walls: Walls, after: datetime) -> datetime | None:
        """The first instant, UTC, strictly later than ``after`` at which one of ``walls`` is.

        Later walls may have earlier instants: one that a gap shifted comes after those that were
        just behind the gap, and the second time of a fold after the first times of all. So there
        are three sorted sequences of instants; the answer is the smallest of their first elements.
        """
        found = (
            self._ahead(walls, after),
            self._again(walls, after) if self.fold != "first" else None,
            self._shifted(walls, after) if self.gap == "shift" else None,
        )
        return min((instant for instant in found if instant is not None), default=None)

    def instants(self, wall: datetime) -> list[datetime]:
        """The instants of one naive wall time, earliest first."""
        before, behind = offsets(zone(self.tz), wall)
        if before == behind:
            return [_utc(wall, before)]
        if before > behind:
            both = [_utc(wall, before), _utc(wall, behind)]
            return {"first": both[:1], "second": both[1:], "both": both}[self.fold]
        if self.gap == "shift":
            return [_utc(wall, before)]
        return [] if self.gap == "skip" else [self._change(wall)]

    def naive(self, instant: datetime) -> datetime:
        """The time that the clock shows at ``instant``."""
        return instant.astimezone(zone(self.tz)).replace(tzinfo=None)

    def _ahead(self, walls: Walls, after: datetime) -> datetime | None:
        """The first among walls that the clock does not show yet at ``after``."""
        where = zone(self.tz)
        shown = self.naive(after).replace(fold=0)
        shifted = None
        wall = first = walls(shown)
        while wall is not None and first is not None and wall - first < GIVE_UP:
            before, behind = offsets(where, wall)
            if before == behind:
                return _earlier(_utc(wall, before), shifted)
            later = [instant for instant in self.instants(wall) if instant > after]
            if before > behind or self.gap == "next":
                if later:
                    return _earlier(later[0], shifted)
            elif shifted is None and later:
                shifted = later[0]
            # No other wall of this gap or fold can come earlier: go on behind it.
            wall = walls(self._end(wall) - TICK)
        return shifted

    def _again(self, walls: Walls, after: datetime) -> datetime | None:
        """While a fold is shown the first time: the first of its walls the second time."""
        shown = self.naive(after)
        before, behind = offsets(zone(self.tz), shown)
        if before <= behind or shown.fold:
            return None
        change = self._change(shown)
        wall = walls(_naive(change, behind) - TICK)
        if wall is None or wall >= _naive(change, before):
            return None
        return _utc(wall, behind)

    def _shifted(self, walls: Walls, after: datetime) -> datetime | None:
        """Just behind a gap: the first of its walls whose shifted instant is still to come."""
        where = zone(self.tz)
        before = offset(where, after - DAY)
        if before >= offset(where, after):
            return None
        wall = walls(_naive(after, before))
        if wall is None:
            return None
        earlier, later = offsets(where, wall)
        return _utc(wall, earlier) if earlier < later and earlier == before else None

    def _change(self, wall: datetime) -> datetime:
        where = zone(self.tz)
        low, high = sorted(_utc(wall, each) for each in offsets(where, wall))
        return transition(where, low, high)

    def _end(self, wall: datetime) -> datetime:
        """The first wall time behind the gap or fold that ``wall`` is in."""
        return _naive(self._change(wall), max(offsets(zone(self.tz), wall)))


def wall_clock(tz: str, gap: object, fold: object, usual: tuple[Gap, Fold]) -> WallClock:
    """A clock with checked policies; ``usual`` are those for None."""
    return WallClock(tz, one_of("gap", gap, GAPS, usual[0]), one_of("fold", fold, FOLDS, usual[1]))


def offset(where: tzinfo, instant: datetime) -> timedelta:
    """The offset of the clocks of ``where`` from UTC at ``instant``."""
    return instant.astimezone(where).utcoffset() or NOTHING


def offsets(where: tzinfo, wall: datetime) -> tuple[timedelta, timedelta]:
    """The offsets of a wall time: before and behind the change of clocks if it is near one.

    Equal for an ordinary time; the first is smaller in a gap and larger in a fold.
    """
    before = wall.replace(tzinfo=where, fold=0).utcoffset() or NOTHING
    behind = wall.replace(tzinfo=where, fold=1).utcoffset() or NOTHING
    return before, behind


def transition(where: tzinfo, low: datetime, high: datetime) -> datetime:
    """The instant, low < instant <= high, at which the offset of ``low`` ends."""
    old = offset(where, low)
    # Clocks are changed at whole seconds.
    before, behind = int(low.timestamp()), ceil(high.timestamp())
    while behind - before > 1:
        middle = (before + behind) // 2
        if offset(where, datetime.fromtimestamp(middle, UTC)) == old:
            before = middle
        else:
            behind = middle
    return datetime.fromtimestamp(behind, UTC)


def _utc(wall: datetime, ahead: timedelta) -> datetime:
    return (wall - ahead).replace(tzinfo=UTC, fold=0)


def _naive(instant: datetime, ahead: timedelta) -> datetime:
    return instant.replace(tzinfo=None) + ahead


def _earlier(one: datetime, other: datetime | None) -> datetime:
    return one if other is None else min(one, other)
