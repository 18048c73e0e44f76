"""Times that should have run in the meantime."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.exceptions import TaskValueError
from django_tasks.schedules import AllOf, At, Cron, Every, Schedule, missed
from tests.schedules.strategies import instants, schedules

UTC = timezone.utc
NOW = datetime(2026, 3, 15, 20, 0, 0, 500_000, tzinfo=UTC)  # a Sunday
SECOND = timedelta(seconds=1)
WEEK = timedelta(weeks=1)


@contextmanager
def questions() -> Iterator[list[datetime]]:
    """Every question that is asked of a schedule from now on."""
    asked = []
    answer = Schedule.next_after

    def next_after(self, previous, now):
        asked.append(now)
        return answer(self, previous, now)

    with patch.object(Schedule, "next_after", next_after):
        yield asked


def one_by_one(schedule, first, now, limit):
    """All fires, found the long way; None if there are more than ``limit``."""
    found, at = [], first
    while (at := schedule.next_after(first, at)) is not None and at <= now:
        found.append(at)
        if len(found) > limit:
            return None
    return found


@given(schedules, instants, st.timedeltas(timedelta(0), timedelta(days=400)), st.integers(1, 5))
def test_they_are_the_last_of_those_found_one_by_one(schedule, first, down, most):
    now = first + down
    everything = one_by_one(schedule, first, now, 500)
    found = missed(schedule, first, now, most)

    if everything is not None:
        assert found == everything[-most:]
    assert len(found) <= most
    for earlier, later in pairwise([first, *found]):
        assert earlier < later
        assert schedule.next_after(first, later - timedelta.resolution) == later
    if found:
        following = schedule.next_after(first, found[-1])
        assert following is None or following > now


@pytest.mark.parametrize(
    "schedule",
    [
        Every(seconds=1),
        Cron("* * * * * *", "UTC"),
        Cron("* * * * * 1-5", "UTC"),  # much, two days ago
        Cron("* * 9 1 * *", "UTC"),
        Every(timedelta.resolution),
    ],
)
@pytest.mark.parametrize("most", [1, 5])
def test_a_week_of_seconds_is_not_gone_through(schedule, most):
    with questions() as asked:
        found = missed(schedule, NOW - 3 * WEEK, NOW, most)

    assert len(found) == most
    assert len(asked) < 1000
    assert schedule.next_after(NOW - 3 * WEEK, found[-1]) > NOW


def test_first_does_not_belong_to_them_and_now_does():
    hourly = Every(hours=1)
    first = datetime(2026, 1, 1, tzinfo=UTC)

    found = missed(hourly, first, first + timedelta(hours=3), 10)

    assert found == [first + timedelta(hours=number) for number in (1, 2, 3)]


def test_nothing_was_missed():
    assert missed(Every(hours=1), NOW, NOW + SECOND, 5) == []
    assert missed(Every(hours=1), NOW, NOW, 5) == []
    assert missed(Every(hours=1), NOW, NOW - WEEK, 5) == []
    assert missed(Every(hours=1), NOW - WEEK, NOW, 0) == []
    assert missed(At(NOW - 2 * WEEK), NOW - WEEK, NOW, 5) == []


def test_what_is_over_has_been_missed_all_the_same():
    assert missed(At(NOW), NOW - WEEK, NOW + 9 * WEEK, 5) == [NOW]
    counted = Every(seconds=1, start=NOW, count=3)
    assert missed(counted, NOW, NOW + 9 * WEEK, 5) == [NOW + SECOND, NOW + 2 * SECOND]


def test_what_all_agree_on_is_found_too():
    all_of = AllOf(Cron("0 9 * * *", "UTC"), Cron("*/30 * * * 5", "UTC"))

    assert missed(all_of, NOW - 3 * WEEK, NOW, 1) == [datetime(2026, 3, 13, 9, tzinfo=UTC)]


@pytest.mark.parametrize("most", [-1, 1.5, None, 100_001])
def test_a_number_that_is_none_is_refused(most):
    with pytest.raises(TaskValueError, match="most must be"):
        missed(Every(hours=1), NOW - WEEK, NOW, most)


def test_naive_datetimes_are_refused():
    with pytest.raises(TaskValueError, match="first must be aware"):
        missed(Every(hours=1), datetime(2026, 1, 1), NOW, 5)
