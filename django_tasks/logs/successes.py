"""The few successes of a minute that a person sees, beside their counts."""

from django_tasks.host.clocks import ticks

# How many successes are told in a minute: of each code, and of all codes of a process.
EACH_SUCCESSES = 3
MOST_SUCCESSES = 30
SUCCESSES_SECONDS = 60.0


class Successes:
    """Picks the first successes of a minute, for a person to see. For all threads, without a lock:
    two that meet tell one line more.
    """

    def __init__(self) -> None:
        self._since = float("-inf")
        self._told: dict[str, int] = {}

    def told(self, biz_code: str) -> int:
        """The place of this success of a code among those to be told, from 1; 0: not told."""
        tick = ticks()
        if not 0 <= tick - self._since < SUCCESSES_SECONDS:
            self._since, self._told = tick, {}
        place = self._told.get(biz_code, 0) + 1
        if place > EACH_SUCCESSES or sum(self._told.values()) >= MOST_SUCCESSES:
            return 0
        self._told[biz_code] = place
        return place
