"""Wall clocks, read by looking at them minute by minute.

Nothing here comes from the code under test: it answers by looking what local time each UTC minute
has, and which times of day were never shown, or twice.
"""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import NamedTuple
from zoneinfo import ZoneInfo

UTC = timezone.utc
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

FIRST_YEAR = datetime(2000, 1, 1, tzinfo=UTC)
LAST_YEAR = datetime(2038, 1, 1, tzinfo=UTC)


class Change(NamedTuple):
    """An instant at which the clocks of a zone are changed."""

    zone: str
    instant: datetime
    before: timedelta
    behind: timedelta

    @property
    def is_gap(self) -> bool:
        return self.behind > self.before

    @property
    def length(self) -> timedelta:
        return abs(self.behind - self.before)

    @property
    def jumped(self) -> datetime:
        """The first wall time of the gap, or of the fold."""
        return (self.instant + min(self.before, self.behind)).replace(tzinfo=None)

    def __str__(self) -> str:
        kind = "gap" if self.is_gap else "fold"
        return f"{self.zone} {self.instant:%Y-%m-%d %H:%MZ} {kind} of {self.length}"


def changes(zone: str) -> list[Change]:
    """All of 2000 to 2037. Clocks that are changed and changed back within a day are not seen."""
    where = ZoneInfo(zone)
    found = []
    day, offset = FIRST_YEAR, FIRST_YEAR.astimezone(where).utcoffset()
    while day < LAST_YEAR:
        day += DAY
        after = day.astimezone(where).utcoffset()
        if after != offset:
            assert offset is not None
            assert after is not None
            found.append(Change(zone, _bisected(where, day - DAY, day), offset, after))
        offset = after
    return found


def _bisected(where: ZoneInfo, low: datetime, high: datetime) -> datetime:
    offset = low.astimezone(where).utcoffset()
    while high - low > MINUTE:
        middle = low + (high - low) // MINUTE // 2 * MINUTE
        if middle.astimezone(where).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high


class Days:
    """Some days on a wall clock, each UTC minute with what the clock showed."""

    def __init__(self, zone: str, first: datetime, last: datetime) -> None:
        where = ZoneInfo(zone)
        self.first, self.last = first, last
        self.minutes: list[tuple[datetime, datetime]] = []
        self.shown: dict[datetime, list[datetime]] = {}
        while first <= last:
            wall = first.astimezone(where).replace(tzinfo=None, fold=0)
            self.minutes.append((first, wall))
            self.shown.setdefault(wall, []).append(first)
            first += MINUTE

    def walls(self, wanted: Callable[[datetime], bool]) -> list[datetime]:
        """All whole minutes that are ``wanted``, shown or not."""
        return [wall for wall in self._all if wanted(wall)]

    @cached_property
    def _all(self) -> list[datetime]:
        first, last = min(self.shown), max(self.shown)
        return [first + number * MINUTE for number in range((last - first) // MINUTE + 1)]

    def instants(self, wall: datetime, gap: str, fold: str) -> list[datetime]:
        """The moment of a fire that is meant for ``wall``."""
        shown = self.shown.get(wall, [])
        if len(shown) > 1:
            return {"first": shown[:1], "second": shown[1:], "both": shown}[fold]
        if shown or gap == "skip":
            return shown
        # The minute before the clock jumped over it, and the one behind.
        ((before, showed), (behind, _)) = next(
            jump for jump in self._jumps if jump[0][1] < wall < jump[1][1]
        )
        return [behind] if gap == "next" else [before + (wall - showed)]

    @cached_property
    def _jumps(self) -> list[tuple[tuple[datetime, datetime], tuple[datetime, datetime]]]:
        minutes = zip(self.minutes, self.minutes[1:], strict=False)
        return [(before, behind) for before, behind in minutes if behind[1] - before[1] > MINUTE]

    def fires(self, walls: list[datetime], gap: str, fold: str) -> list[datetime]:
        """All fires that are meant for ``walls``, in order, two at one instant once."""
        return sorted({instant for wall in walls for instant in self.instants(wall, gap, fold)})
