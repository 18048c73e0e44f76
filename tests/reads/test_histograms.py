"""Histograms: fixed buckets that can be added, and quantiles that lie where the values are."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.values.figures import (
    COLUMNS,
    LATE_BOUNDS,
    NO_FIGURES,
    OUTCOMES,
    TOOK_BOUNDS,
    Histogram,
    Tally,
    figures_of,
)


def figures(values: list[float]) -> Tally:
    tally = Tally()
    for value in values:
        tally.count_run("done", value, value)
    return tally


@given(st.lists(st.floats(-5, 20_000), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_lies_in_the_bucket_of_its_value(values: list[float], part: float) -> None:
    found = figures_of(figures(values).values)
    for histogram, bounds in ((found.late, LATE_BOUNDS), (found.took, TOOK_BOUNDS)):
        assert histogram.total == len(values)
        quantile = histogram.quantile(part)
        exact = sorted(max(0.0, v) for v in values)[max(0, -int(-part * len(values) // 1) - 1)]
        upper = next(bound for bound in bounds if exact <= bound)
        lower = max([0.0, *(bound for bound in bounds if bound < upper)])
        assert quantile is not None
        assert lower <= quantile <= upper


def test_a_quantile_is_not_rounded_out_of_its_bucket() -> None:
    histogram = Histogram((0.005, 0.025, 0.1), (1, 0, 7), 0.5)
    assert 0.025 + (0.1 - 0.025) * 7 / 7 > 0.1
    assert histogram.quantile(1.0) == 0.1


def test_the_last_bucket_has_no_end() -> None:
    found = figures_of(figures([10.0**9]).values)
    assert found.late.bounds[-1] == inf
    assert (found.late.quantile(0.99), found.took.quantile(0.5)) == (7200.0, 1800.0)


def test_nothing_has_no_quantile_and_no_mean() -> None:
    assert NO_FIGURES.late.quantile(0.5) is None
    assert NO_FIGURES.took.mean is None
    assert (NO_FIGURES.runs, NO_FIGURES.failures) == (0, 0)


def test_sums_of_tallies_are_tallies_of_sums() -> None:
    one, other = figures([0.125, 3.0]), figures([0.125, 90.0])
    added = figures_of([a + b for a, b in zip(one.values, other.values, strict=True)])
    assert added == figures_of(figures([0.125, 3.0, 0.125, 90.0]).values)
    assert added.took.mean == pytest.approx(93.25 / 4)


def test_an_unknown_outcome_counts_nothing() -> None:
    tally = Tally()
    tally.count("given back")
    tally.count_run("made up", 1.0, 1.0)
    assert tally.values == [0] * len(COLUMNS)
    for outcome in OUTCOMES:
        tally.count(outcome)
    assert sum(tally.values) == len(OUTCOMES)
