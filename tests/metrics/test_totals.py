"""The sums behind the counters: exact and rising, through merges, pruning and late writes."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.metrics.totals import Totals
from django_tasks.models import TaskMinute
from django_tasks.store import minutes
from django_tasks.store.minutes import (
    HOUR,
    Counted,
    add,
    merge_hours,
    merge_old,
    merge_workers,
    minute_of,
)
from django_tasks.values.figures import COLUMNS, GRAIN, SUMMED, Figures, exactly
from tests.factories import NOW
from tests.metrics.reading import assert_no_counter_fell, scrape

pytestmark = pytest.mark.django_db

USING = "default"
NOW_MINUTE = minute_of(NOW)
BEGIN = NOW_MINUTE - NOW_MINUTE % HOUR  # of the hour of now, 30 minutes ago
DAY = 24 * HOUR
AWKWARD = 0.1  # no sum of it is exact as it is


def counted(minute: int, code: str = "mail", exception: str = "", **counts: float) -> Counted:
    values = {"done": 1, "late_0": 1, "late_sum": AWKWARD, "took_sum": AWKWARD / 3} | counts
    return Counted(minute, code, exception, [values.get(name, 0) for name in COLUMNS])


def statements(function: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        function()
    return len(captured.captured_queries)


def add_some(*ages: int, worker: int = 1, code: str = "mail") -> None:
    """Count a run so many minutes ago, and a failure by its exception."""
    rows = [counted(NOW_MINUTE - age, code) for age in ages]
    rows += [counted(NOW_MINUTE - age, code, "a.B", failed=1) for age in ages]
    add(worker, rows, using=USING)


def read(totals: Totals, ahead: int = 0) -> dict[str, Figures]:
    return totals.read(NOW + timedelta(minutes=ahead), using=USING)


MERGES: dict[str, Callable[[], bool]] = {
    "workers": lambda: merge_workers(NOW_MINUTE - 3, using=USING),
    "hours": lambda: merge_hours(NOW_MINUTE - 2 * HOUR, using=USING),
    "old": lambda: merge_old(NOW_MINUTE - 8 * DAY, using=USING),
}


@pytest.mark.parametrize("merge", MERGES)
def test_no_merge_changes_a_total_of_a_process_that_keeps_sums_or_of_a_new_one(merge: str) -> None:
    for worker in range(1, 4):
        add_some(0, 1, 5, 16, 40, 100, 200, 201, 900, 9 * DAY, 9 * DAY + 1, worker=worker)
    kept = Totals()
    before = read(kept)
    assert before["mail"].outcomes["done"] == 33
    assert MERGES[merge](), "there was something to merge"
    assert read(kept) == read(Totals()) == before


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.usefixtures("now")
def test_no_counter_of_a_scrape_falls_over_a_merge(merge: str, handlers: Any) -> None:
    for worker in range(1, 4):
        add_some(0, 5, 40, 100, 200, 900, 9 * DAY, worker=worker)
    before = scrape()
    assert MERGES[merge]()
    after = scrape()
    assert before.counters() == after.counters()
    add_some(0, code="new")
    assert_no_counter_fell(after, scrape())


def test_what_is_written_late_is_there_at_once() -> None:
    """A worker writes the minutes of an outage when it is over: hours that were summed before."""
    add_some(1, 300)
    totals = Totals()
    assert read(totals)["mail"].outcomes["done"] == 2
    add_some(300, 301, 20, worker=2)
    assert read(totals)["mail"].outcomes["done"] == 5
    add_some(9 * DAY, worker=2)
    assert read(totals)["mail"].outcomes["done"] == 6


def test_a_late_row_and_a_merge_together_are_seen() -> None:
    """The number of rows is the same as before: two were merged into one, and one has come."""
    add(1, [counted(BEGIN - 5 * HOUR)], using=USING)
    add(2, [counted(BEGIN - 5 * HOUR + 1)], using=USING)
    totals = Totals()
    assert read(totals)["mail"].outcomes["done"] == 2
    assert MERGES["hours"]()
    add(3, [counted(BEGIN - 5 * HOUR)], using=USING)
    assert TaskMinute.objects.count() == 2
    assert read(totals)["mail"].outcomes["done"] == 3


def test_the_border_goes_with_the_time() -> None:
    add_some(0, 10, 20, 70)
    totals = Totals()
    for ahead in range(0, 10 * HOUR, 7):
        assert read(totals, ahead)["mail"].outcomes["done"] == 4
    assert read(totals)["mail"].outcomes["done"] == 4  # a clock that was set back


def test_only_what_has_changed_is_summed_again() -> None:
    add_some(0, 300)
    totals = Totals()
    assert statements(lambda: read(totals)) == 4
    assert statements(lambda: read(totals)) == 2
    for ages, expected in (((0,), 3), ((1,), 3), ((300,), 3), ((0, 300), 4)):
        add_some(*ages)
        assert statements(lambda: read(totals)) == expected
        assert statements(lambda: read(totals)) == 2


def test_minutes_that_are_over_are_added_up_once() -> None:
    add_some(0, 20, 300)
    totals = Totals()

    def older() -> Any:
        found = read(totals)
        assert found == read(Totals())
        assert totals._kept
        return totals._kept.older

    first = older()
    add_some(0)
    assert older() is first
    add_some(20)
    second = older()
    assert second is not first
    add_some(300)
    assert older() is not second


def test_minutes_before_the_first_that_has_changed_are_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_some(*range(16, 30))
    totals, asked = Totals(), list[int]()
    read(totals)
    sums = minutes.sums

    def noted(since: int, *args: Any, **kwargs: Any) -> Any:
        asked.append(NOW_MINUTE - since)
        return sums(since, *args, **kwargs)

    monkeypatch.setattr(minutes, "sums", noted)
    add_some(1, 3)
    assert read(totals)["mail"].outcomes["done"] == 16
    assert asked == [3]


@pytest.mark.parametrize("age", [300, 5])
def test_what_comes_between_the_two_looks_is_not_lost(
    age: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums are of the moment after it, and the mark of that before."""
    add_some(age)
    totals, sums, late = Totals(), minutes.sums, [2, 3]

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if late:
            add_some(age, worker=late.pop())
        return sums(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(minutes, "sums", interrupted)
        assert 1 <= read(totals)["mail"].outcomes["done"] <= 3
    add_some(200, worker=4)
    while late:
        add_some(age, worker=late.pop())
    assert read(totals) == read(Totals())
    assert read(totals)["mail"].outcomes["done"] == 4


STEPS = st.one_of(
    st.tuples(
        st.sampled_from([0, 1, 4, 14, 16, 29, 31, 90, 150, 200, 1000, 8 * DAY + 5, 20 * DAY]),
        st.integers(1, 3),
        st.floats(0, 10_000),
    ),
    st.sampled_from(list(MERGES)),
    st.integers(1, 200),
)


@given(st.lists(STEPS, max_size=25))
def test_totals_are_exact_after_whatever_comes(steps: list[Any]) -> None:
    """Rows that are added at any age, merges and time, in any order: a total is the sum of all."""
    TaskMinute.objects.all().delete()
    kept, ahead, added, seconds = Totals(), 0, 0, 0.0
    for step in steps:
        if isinstance(step, str):
            MERGES[step]()
        elif isinstance(step, int):
            ahead += step
        else:
            age, worker, late = step
            add(worker, [counted(NOW_MINUTE - age, late_sum=late)], using=USING)
            added, seconds = added + 1, seconds + round(late / GRAIN) * GRAIN
        for found in (read(kept, ahead), read(Totals(), ahead)):
            assert sum(figures.outcomes["done"] for figures in found.values()) == added
            assert sum(figures.late.sum for figures in found.values()) == seconds


@given(st.lists(st.floats(0, 1e7), min_size=2, max_size=30), st.randoms())
def test_seconds_as_they_are_written_are_added_without_rounding(
    seconds: list[float], random: Any
) -> None:
    rows = [exactly([0.0] * (len(COLUMNS) - 2) + [value, value]) for value in seconds]
    written = [row[-1] for row in rows]
    assert all(abs(a - b) <= GRAIN / 2 for a, b in zip(written, seconds, strict=True))
    shuffled = list(written)
    random.shuffle(shuffled)
    assert sum(shuffled) == sum(written)
    assert COLUMNS[-2:] == SUMMED
