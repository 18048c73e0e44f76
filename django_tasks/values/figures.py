"""Counts that workers keep of runs: outcomes, histograms of lateness and duration. No Django.

A histogram has fixed buckets, so that those of any minutes and workers can be added.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

# The outcomes that are counted, as in ``RunOutcome``; each is a column.
OUTCOMES = ("done", "rescheduled", "skipped", "retried", "failed", "lost", "rescued")
# The ends that are failures: they are counted by exception as well.
FAILURES = ("retried", "failed", "rescued")
# Upper bounds of the buckets in seconds, the bound itself included; the last one has no bound.
LATE_BOUNDS = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, inf)
TOOK_BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 1800.0, inf)

# Names of the columns.
LATE = tuple(f"late_{number}" for number in range(len(LATE_BOUNDS)))
TOOK = tuple(f"took_{number}" for number in range(len(TOOK_BOUNDS)))
COUNTED = (*OUTCOMES, *LATE, *TOOK)
SUMMED = ("late_sum", "took_sum")  # seconds
COLUMNS = (*COUNTED, *SUMMED)

# From so many values on, to sort them is quicker than to look for the bucket of each.
FEW = 20

_FIRST_LATE, _FIRST_TOOK = len(OUTCOMES), len(OUTCOMES) + len(LATE)
_LATE_SUM, _TOOK_SUM = len(COUNTED), len(COUNTED) + 1
_PLACES = {outcome: place for place, outcome in enumerate(OUTCOMES)}


# Seconds are written as multiples of this, 15 microseconds. Such numbers are added without any
# rounding, in every order, up to 4,000 years. Else a sum would be a little less after a merge, and
# a counter that falls is taken for one that began again from 0.
GRAIN = 2.0**-16


def exactly(values: Sequence[float]) -> list[float]:
    """Values in the order of COLUMNS, with the seconds as multiples of GRAIN."""
    seconds = (round(value / GRAIN) * GRAIN for value in values[_LATE_SUM:])
    return [*values[:_LATE_SUM], *seconds]


class Tally:
    """Running counts, in the order of COLUMNS. For one thread at a time."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: list[float] = [0] * len(COLUMNS)

    def count(self, outcome: str) -> None:
        """Count an end that was no run of its own: a rescue, a skipped time."""
        place = _PLACES.get(outcome)
        if place is not None:
            self.values[place] += 1

    def count_run(self, outcome: str, late: float, took: float) -> None:
        """Count a run that was ``late`` and ``took`` so many seconds."""
        self.count_runs(outcome, [late], [took])

    def count_runs(self, outcome: str, late: list[float], took: list[float]) -> None:
        """The same for many at once, which costs each of them a third. Sorts the lists."""
        place = _PLACES.get(outcome)
        if place is not None:
            self.values[place] += len(late)
            self._spread(late, LATE_BOUNDS, _FIRST_LATE, _LATE_SUM)
            self._spread(took, TOOK_BOUNDS, _FIRST_TOOK, _TOOK_SUM)

    def _spread(
        self, seconds: list[float], bounds: Sequence[float], first: int, total: int
    ) -> None:
        values = self.values
        if len(seconds) < FEW:
            for value in seconds:
                values[first + bisect_left(bounds, value)] += 1
        else:
            seconds.sort()
            below = 0
            for place, bound in enumerate(bounds, first):
                upto = bisect_right(seconds, bound, below)
                values[place] += upto - below
                below = upto
        least = seconds[0] if len(seconds) >= FEW else min(seconds, default=0.0)
        values[total] += sum(seconds) if least >= 0 else sum(max(0.0, value) for value in seconds)


class Histogram(NamedTuple):
    """The number of values in each bucket, and their sum in seconds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def total(self) -> int:
        """The number of values."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """The mean in seconds; None without a value."""
        return self.sum / self.total if self.total else None

    def quantile(self, part: float) -> float | None:
        """About the value that ``part`` (0 to 1) of all values do not exceed; None without any.

        Interpolated within its bucket. In the last one, which has no upper bound, its lower one.
        """
        wanted, lower = part * self.total, 0.0
        if not self.total:
            return None
        for upper, count in zip(self.bounds, self.counts, strict=True):
            if count and wanted <= count:
                if upper == inf:
                    return lower
                # Rounded up, it would lie beyond its bucket.
                return min(upper, lower + (upper - lower) * max(0.0, wanted) / count)
            wanted -= count
            lower = upper if upper != inf else lower
        return lower


class Figures(NamedTuple):
    """The counts of some minutes, codes and workers together."""

    outcomes: Mapping[str, int]
    late: Histogram
    took: Histogram

    @property
    def runs(self) -> int:
        """The number of runs that have ended, well or not; skipped times are none."""
        return sum(count for outcome, count in self.outcomes.items() if outcome != "skipped")

    @property
    def failures(self) -> int:
        """The number of runs that have failed for good, or were tried again."""
        return sum(self.outcomes[outcome] for outcome in FAILURES)


def figures_of(values: Sequence[float | None]) -> Figures:
    """Figures of sums in the order of COLUMNS; None counts as 0."""
    numbers = [value or 0 for value in values]
    counts = [int(number) for number in numbers[: len(COUNTED)]]
    return Figures(
        dict(zip(OUTCOMES, counts, strict=False)),
        Histogram(LATE_BOUNDS, tuple(counts[_FIRST_LATE:_FIRST_TOOK]), float(numbers[_LATE_SUM])),
        Histogram(TOOK_BOUNDS, tuple(counts[_FIRST_TOOK:]), float(numbers[_TOOK_SUM])),
    )


NO_FIGURES = figures_of([0] * len(COLUMNS))
