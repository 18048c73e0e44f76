"""Lanes whose claims fail, or are cut off, for a reason of their own."""

from typing import NamedTuple

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.store.lanes import Lane

# How long a lane is left alone whose claim has failed with an error of its own, in seconds; doubled
# each time.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


class Trouble(NamedTuple):
    """The next try of a lane, by the host's clock, and the pause that ends then, in seconds."""

    until: float
    pause: float


class Troubled:
    """Lanes whose claims fail for a reason of their own. Used by the poller thread alone."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._known: dict[tuple[str, int, str], Trouble] = {}

    def is_open(self, lane: Lane) -> bool:
        """Tell if it is time to claim from ``lane``."""
        return not self._known or ticks() >= self._known.get(lane[:3], _NO_TROUBLE).until

    def closed_for(self, lane: Lane) -> float:
        """Seconds until it is time to claim from ``lane``."""
        return max(0.0, self._known.get(lane[:3], _NO_TROUBLE).until - ticks())

    def note(self, lane: Lane, error: Exception) -> None:
        """Leave ``lane`` alone for a while."""
        known = self._known.get(lane[:3], _NO_TROUBLE)
        pause = min(LONGEST_PAUSE, 2 * known.pause)
        self._known[lane[:3]] = Trouble(ticks() + pause, pause)
        logs.lane_failed(self._using, lane.biz_code, lane.queue, error, pause)

    def forget(self, lane: Lane) -> None:
        """The lane is well again."""
        if self._known:
            self._known.pop(lane[:3], None)


class Portions:
    """The size of a claim, lane by lane. Used by the poller thread alone.

    Less where the server cuts the claim off, which takes longer than its bound: repeated at the
    same size it would never end. Of each lane by itself, or the claims of another one that go well
    would have this one's grow again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[tuple[str, int, str], int] = {}

    def of(self, lane: Lane) -> int:
        """The number of tasks of ``lane`` that may be claimed at once."""
        return self._known.get(lane[:3], self._most)

    def halve(self, lane: Lane, tried: int) -> None:
        """A claim of ``tried`` tasks was cut off."""
        self._known[lane[:3]] = max(1, tried // 2)

    def grow(self, lane: Lane) -> None:
        """A claim has brought something."""
        if self._known and (portion := 2 * self._known.pop(lane[:3], self._most)) < self._most:
            self._known[lane[:3]] = portion


_NO_TROUBLE = Trouble(float("-inf"), FIRST_PAUSE / 2)
