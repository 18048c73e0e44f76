"""The wait before the next attempt."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.backoff import Delays, Exponential, as_backoff, seconds


@pytest.mark.parametrize(
    ("duration", "expected"),
    [(0, 0.0), (5, 5.0), (0.25, 0.25), (timedelta(minutes=1.5), 90.0), (timedelta(0), 0.0)],
)
def test_a_duration_is_a_timedelta_or_seconds(duration, expected):
    assert seconds(duration) == expected


@pytest.mark.parametrize("duration", ["5", None, True, [1], 1j])
def test_what_is_no_duration_is_a_type_error(duration):
    with pytest.raises(TypeError, match=r"timedelta.*not"):
        seconds(duration)


@pytest.mark.parametrize(
    "duration", [-1, -0.001, float("nan"), float("inf"), float("-inf"), timedelta(-1)]
)
def test_a_duration_that_cannot_be_waited_for_is_a_value_error(duration):
    with pytest.raises(ValueError, match="duration"):
        seconds(duration)


@given(st.integers(1, 10_000))
def test_the_default_backoff_stays_between_nothing_and_an_hour(attempt):
    assert 0 <= Exponential().delay(attempt) <= min(3600, 10 * 2 ** (attempt - 1))


def longest(backoff, attempt, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("django_tasks.backoff.random.uniform", lambda low, high: high)
        return backoff.delay(attempt)


def test_the_longest_delay_doubles_up_to_the_cap(monkeypatch):
    found = [longest(Exponential(), attempt, monkeypatch) for attempt in range(1, 12)]

    assert found == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]


def test_the_jitter_is_full():
    delays = [Exponential(first=100, factor=1).delay(1) for _ in range(500)]

    assert min(delays) < 20
    assert max(delays) > 80
    assert len(set(delays)) > 400


@pytest.mark.parametrize("factor", [1, 2, 4.5, 10])
@pytest.mark.parametrize("attempt", [1, 501, 10_000])
def test_no_number_of_attempts_is_too_much(factor, attempt):
    assert 0 <= Exponential(factor=factor).delay(attempt) <= 3600


def test_durations_of_an_exponential_may_be_timedeltas(monkeypatch):
    backoff = Exponential(first=timedelta(seconds=3), factor=3, cap=timedelta(seconds=20))

    assert [longest(backoff, attempt, monkeypatch) for attempt in (1, 2, 3)] == [3, 9, 20]


@pytest.mark.parametrize("value", [5, 5.0, timedelta(seconds=5)])
def test_one_delay_is_the_same_for_every_attempt(value):
    backoff = as_backoff(value)

    assert [backoff.delay(attempt) for attempt in (1, 2, 99)] == [5, 5, 5]


@pytest.mark.parametrize("kind", [list, tuple])
def test_of_a_list_of_delays_the_last_one_repeats(kind):
    backoff = as_backoff(kind([1, timedelta(seconds=2), 3.5]))

    assert [backoff.delay(attempt) for attempt in (1, 2, 3, 4, 99)] == [1, 2, 3.5, 3.5, 3.5]


def test_anything_with_delay_is_a_backoff():
    class Own:
        def delay(self, attempt):
            return attempt * 7

    own = Own()
    assert as_backoff(own) is own
    assert as_backoff(Exponential(first=1)) == Exponential(first=1)
    assert as_backoff(Delays((1.0,))).delay(5) == 1.0


@pytest.mark.parametrize("value", ["5", None, {1: 2}, {1}, object(), True, [True], ["5"], [None]])
def test_what_is_no_backoff_is_a_type_error(value):
    with pytest.raises(TypeError):
        as_backoff(value)


@pytest.mark.parametrize("value", [[], (), -1, [1, -1], float("nan"), timedelta(-1)])
def test_a_backoff_that_makes_no_sense_is_a_value_error(value):
    with pytest.raises(ValueError):
        as_backoff(value)


def test_the_class_instead_of_an_instance_is_no_backoff():
    with pytest.raises(TypeError):
        as_backoff(Exponential)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments", [{"first": -5}, {"first": "5"}, {"cap": -1}, {"factor": "2"}, {"factor": -2.0}]
)
def test_an_exponential_that_cannot_work_is_refused_where_it_is_declared(arguments):
    with pytest.raises((TypeError, ValueError)):
        as_backoff(Exponential(**arguments))
