"""Values of labels: so many of each kind and no more, as each is a series for Prometheus."""

from collections.abc import Iterable

# Of a code there are about 40 series.
MOST_CODES = 200
MOST_QUEUES = 100
OTHER = "other"


class Labels:
    """The first names in the order of the alphabet have a label; all others are "other".

    By name, and not by size: a code never loses its label by what other codes do, but for a new
    one. Then the counters of "other" rise, and none falls.
    """

    def __init__(self, known: Iterable[str], most: int) -> None:
        names = sorted(known)
        self._own = frozenset(names[:most])
        self.left_out = max(0, len(names) - most)

    def __call__(self, name: str) -> str:
        return name if name in self._own else OTHER

    def all(self) -> list[str]:
        """All values, in order."""
        return sorted({*self._own, OTHER} if self.left_out else self._own)
