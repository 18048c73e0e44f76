"""The families of one answer, in which each database writes its samples."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any

from prometheus_client.metrics_core import Metric

from django_tasks.metrics.catalogue import ENTRIES, Entry
from django_tasks.values.figures import Histogram


class Families:
    """All families of the catalogue. One of them is written for each answer, by one thread."""

    def __init__(self) -> None:
        self._families: dict[Entry, Any] = {entry: entry.family() for entry in ENTRIES}

    def of(self, database: str) -> "Samples":
        """The place for the samples of a database."""
        return Samples(self._families, database)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())


class Samples:
    """The samples of one database."""

    def __init__(self, families: Mapping[Entry, Any], database: str) -> None:
        self._families = families
        self._database = database

    def add(self, entry: Entry, value: float, *labels: str) -> None:
        """Add a sample of a counter or a gauge, with its labels in the order of the catalogue."""
        self._families[entry].add_metric([self._database, *labels], value)

    def add_histogram(self, entry: Entry, histogram: Histogram, *labels: str) -> None:
        """Add a histogram. Its buckets count all values up to their bound, as Prometheus wants."""
        buckets, count = [], 0
        for bound, number in zip(histogram.bounds, histogram.counts, strict=True):
            count += number
            buckets.append((_text(bound), count))
        family = self._families[entry]
        family.add_metric([self._database, *labels], buckets, histogram.sum)

    def add_each(
        self,
        entry: Entry,
        labels: Iterable[str],
        found: Iterable[tuple[str, float]],
        together: Callable[[float, float], float],
    ) -> None:
        """Add a gauge for each label, 0 where nothing was found; values of one label together."""
        values: dict[str, float] = dict.fromkeys(labels, 0)
        for label, value in found:
            values[label] = together(values.get(label, 0), value)
        for label, value in values.items():
            self.add(entry, value, label)


def _text(bound: float) -> str:
    return "+Inf" if bound == inf else str(bound)


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
