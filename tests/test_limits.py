"""Limits of a code: what their texts mean, and that no stretch of time sees more than they say."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.values.limits import (
    DOUBT,
    MOST,
    PERIODS,
    SECOND,
    Limit,
    Rate,
    as_limit,
    in_force,
)

EPOCH = 1_900_000_000 * SECOND


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1/s", Rate(1, SECOND)),
        ("100/m", Rate(100, 60 * SECOND)),
        ("5000/h", Rate(5000, 3600 * SECOND)),
        ("3/d", Rate(3, 86_400 * SECOND)),
        ("1000000/s", Rate(MOST, SECOND)),
    ],
)
def test_a_text_says_a_rate(text, rate):
    assert as_limit(None, text) == Limit(None, rate)


@pytest.mark.parametrize(
    "text",
    ["", "100", "100/", "/m", "0/s", "1000001/s", "-1/s", "1.5/s", "1/w", "1/ m", "1/M", "٣/s"],
)
def test_a_text_that_says_no_rate_is_refused(text):
    with pytest.raises(TaskValueError, match="rate_limit"):
        as_limit(None, text)


@pytest.mark.parametrize("value", [5, 5.0, ("5", "s"), b"5/s", True])
def test_a_rate_that_is_no_text_is_refused(value):
    with pytest.raises(TaskTypeError, match="rate_limit"):
        as_limit(None, value)


@pytest.mark.parametrize("value", [0, -1, MOST + 1])
def test_a_number_of_runs_that_cannot_be_is_refused(value):
    with pytest.raises(TaskValueError, match="max_running"):
        as_limit(value, None)


@pytest.mark.parametrize("value", ["5", 5.0, True])
def test_a_number_of_runs_that_is_no_whole_number_is_refused(value):
    with pytest.raises(TaskTypeError, match="max_running"):
        as_limit(value, None)


def test_attributes_that_limit_nothing_are_no_limit():
    assert as_limit(None, None) is None
    assert as_limit(3, None) == Limit(3, None)


# Rates


def starts_of(rate, waits, wishes):
    """The starts of a caller that comes after ``waits`` and wants ``wishes`` each time."""
    full_until, now = 0, EPOCH
    moments = []
    for wait, wish in zip(waits, wishes, strict=True):
        now += wait
        count = min(wish, rate.free(full_until, now))
        if count > 0:
            full_until = rate.after(full_until, now, count)
            moments += [now] * count
    return moments


def most_in_a_period(moments, period):
    first = best = 0
    for place, moment in enumerate(moments):
        while moments[first] <= moment - period:
            first += 1
        best = max(best, place - first + 1)
    return best


rates = st.builds(Rate, st.integers(1, 2000), st.sampled_from(list(PERIODS.values())))


@given(rate=rates, data=st.data())
def test_no_stretch_of_time_sees_more_starts_than_the_rate_says(rate, data):
    step = max(1, rate.period // rate.starts)
    comings = data.draw(
        st.lists(st.tuples(st.integers(0, 3 * step), st.integers(1, 200)), max_size=300)
    )
    moments = starts_of(rate, *zip(*comings, strict=True)) if comings else []

    assert most_in_a_period(moments, rate.period) <= rate.starts


@given(rate=st.builds(Rate, st.integers(1, 3000), st.sampled_from(list(PERIODS.values()))))
def test_whoever_comes_whenever_it_opens_gets_nearly_all_of_the_rate(rate):
    full_until, now, started = 0, EPOCH, 0
    while now < EPOCH + rate.period:
        count = rate.free(full_until, now)
        assert count > 0
        full_until = rate.after(full_until, now, count)
        started += count
        now += rate.wait(full_until, now)

    assert 0.94 * rate.starts <= started <= rate.starts


@given(rate=rates, full_until=st.integers(0, 2 * EPOCH))
def test_it_is_open_exactly_when_there_is_nothing_to_wait_for(rate, full_until):
    wait = rate.wait(full_until, EPOCH)

    assert (rate.free(full_until, EPOCH) > 0) == (wait == 0)
    assert rate.free(max(full_until, 0), EPOCH + wait) > 0 or full_until > EPOCH + rate.period


@given(rate=rates)
def test_a_clock_that_was_set_back_holds_up_nobody_for_long(rate):
    full_until = EPOCH + 10**15

    assert rate.wait(full_until, EPOCH) <= rate.period


@given(rate=rates, ahead=st.integers(0, 10**15))
def test_what_it_cannot_have_given_out_is_forgotten_at_the_first_look(rate, ahead):
    settled = rate.settled(EPOCH + ahead, EPOCH)

    assert settled <= EPOCH + ahead
    assert rate.free(settled, EPOCH) == rate.free(EPOCH + ahead, EPOCH)
    assert rate.free(settled, EPOCH + 2 * rate.period + DOUBT) == rate.together


@given(rate=rates, started=st.integers(1, 10), apart=st.integers(-DOUBT, DOUBT))
def test_what_it_has_given_out_is_not_whatever_clocks_differ(rate, started, apart):
    full_until = rate.after(0, EPOCH, min(started, rate.together))

    assert rate.settled(full_until, EPOCH + apart) == full_until


# Gates


def test_a_gate_lets_through_what_both_limits_allow():
    limit = as_limit(10, "100/s")
    assert limit is not None

    assert limit.opening(0, 0, EPOCH) == (5, 0.0)
    assert limit.opening(8, 0, EPOCH) == (2, 0.0)
    assert limit.opening(10, 0, EPOCH) == (0, inf)
    assert limit.opening(11, 0, EPOCH) == (0, inf)


def test_a_gate_that_a_rate_closes_tells_when_it_opens():
    limit = as_limit(None, "1/s")
    assert limit is not None

    full_until = limit.after(0, EPOCH, 1)

    assert limit.opening(0, full_until, EPOCH) == (0, 1.0)
    assert limit.opening(0, full_until, EPOCH + SECOND // 4) == (0, 0.75)
    assert limit.opening(0, full_until, EPOCH + SECOND) == (1, 0.0)


@pytest.mark.parametrize(
    ("own", "others", "holds"),
    [
        ((None, None), (None, None), (None, None)),
        ((3, "1/s"), (None, None), (3, "1/s")),
        ((3, "1/s"), (5, None), (5, "1/s")),
        ((3, "1/s"), (None, "9/m"), (3, "9/m")),
        ((None, None), (5, "9/m"), (5, "9/m")),
    ],
)
def test_an_operators_limits_stand_in_place_of_those_of_their_kind(own, others, holds):
    assert in_force(as_limit(*own), as_limit(*others)) == (as_limit(*holds) or Limit(None, None))
