"""Schedules made of schedules."""

from datetime import timedelta, timezone

import pytest

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import AllOf, AnyOf, At, Cron, Every
from tests.schedules.test_every import fires, utc

UTC = timezone.utc
NOW = utc(2026, 3, 10, 12)
NINE = Cron("0 9 * * *", "UTC")
TEN = Cron("0 10 * * *", "UTC")
HOUR = timedelta(hours=1)


def test_any_of_fires_whenever_one_does():
    assert fires(AnyOf(TEN, NINE), 3, now=NOW) == [
        utc(2026, 3, 11, 9),
        utc(2026, 3, 11, 10),
        utc(2026, 3, 12, 9),
    ]


def test_any_of_fires_once_if_two_do():
    assert fires(AnyOf(NINE, Cron("0 9 * * 1-5", "UTC")), 2, now=NOW) == [
        utc(2026, 3, 11, 9),
        utc(2026, 3, 12, 9),
    ]


def test_any_of_is_over_when_all_are():
    any_of = AnyOf(At(NOW), At(NOW + HOUR))

    assert fires(any_of, 9, now=NOW - HOUR) == [NOW, NOW + HOUR]


def test_an_interval_in_any_of_goes_on_from_the_previous_time_or_the_start_of_the_whole():
    assert AnyOf(Every(hours=1), TEN).next_after(NOW - HOUR / 2, NOW) == NOW + HOUR / 2
    assert AnyOf(Every(hours=1), TEN).next_after(None, NOW) == NOW + HOUR
    started = AnyOf(Every(hours=1), TEN, start=utc(2026, 1, 1, 0, 15))
    assert started.next_after(NOW - HOUR / 2, NOW) == utc(2026, 3, 10, 12, 15)


def test_all_of_fires_when_all_agree():
    all_of = AllOf(NINE, Cron("*/30 * * * 1-5", "UTC"))

    assert fires(all_of, 3, now=utc(2026, 3, 12, 12)) == [
        utc(2026, 3, 13, 9),
        utc(2026, 3, 16, 9),
        utc(2026, 3, 17, 9),
    ]


def test_all_of_finds_what_comes_every_28_years():
    leap_sundays = AllOf(Cron("0 0 29 2 *", "UTC"), Cron("0 0 * * 0", "UTC"))

    assert leap_sundays.next_after(None, utc(2032, 3, 1)) == utc(2060, 2, 29)


def test_all_of_takes_intervals_that_know_where_they_begin():
    beat = Every(hours=5, start=utc(2026, 1, 1))

    assert fires(AllOf(beat, NINE), 2, now=NOW) == [utc(2026, 3, 11, 9), utc(2026, 3, 16, 9)]
    started = AllOf(Every(hours=5), NINE, start=utc(2026, 1, 1))
    assert fires(started, 2, now=NOW) == [utc(2026, 3, 11, 9), utc(2026, 3, 16, 9)]


def test_the_end_of_one_is_the_end_of_all_of():
    all_of = AllOf(NINE, Cron("0 * * * *", "UTC", end=NOW + 2 * 24 * HOUR))

    assert fires(all_of, 9, now=NOW) == [utc(2026, 3, 11, 9), utc(2026, 3, 12, 9)]


@pytest.mark.parametrize("kind", [AnyOf, AllOf])
def test_both_take_the_options(kind):
    nine, end = Cron("0 9 * * *", "UTC"), NOW + 99 * 24 * HOUR
    several = kind(NINE, nine, start=NOW, end=end, count=2, jitter=60)

    assert fires(several, 9, now=NOW - 9 * 24 * HOUR) == [
        utc(2026, 3, 11, 9),
        utc(2026, 3, 12, 9),
    ]
    assert several.jitter == timedelta(minutes=1)


@pytest.mark.parametrize("kind", [AnyOf, AllOf])
def test_values_are_compared_and_hashed(kind):
    assert len({kind(NINE, start=NOW), kind(Cron("0  9 * * *", "UTC"), start=NOW)}) == 1
    assert kind(NINE) != kind(NINE, start=NOW)
    assert AnyOf(NINE) != AllOf(NINE)  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: AnyOf(), "any of needs at least one schedule"),
        (lambda: AllOf(), "all of needs at least one schedule"),
        (lambda: AnyOf(NINE, "0 9 * * *"), "any of must be made of schedules"),  # type: ignore[arg-type]
        (lambda: AllOf([NINE]), "all of must be made of schedules"),  # type: ignore[arg-type]
        (lambda: AnyOf(Every(hours=1, jitter=5)), "jitter stands outside of the parentheses"),
        (lambda: AllOf(NINE, TEN), "all of never fires: its schedules never agree"),
        (lambda: AllOf(NINE, Every(hours=1)), "all of needs to know from when its interval"),
        (lambda: AllOf(NINE, AnyOf(Every(hours=1))), "all of needs to know from when"),
        (lambda: AllOf(NINE, Every(days=2, tz="UTC")), "all of needs to know from when"),
        (lambda: AllOf(NINE, Every(months=5, tz="UTC")), "all of needs to know from when"),
        (lambda: AllOf(NINE, AnyOf(AllOf(NINE))), "all of must not stand inside of all of"),
        (lambda: AnyOf(AnyOf(AnyOf(AnyOf(AnyOf(NINE))))), "any of is nested more than 5 levels"),
        (lambda: AnyOf(*[NINE] * 100), "schedule is 2,"),
        (lambda: AnyOf(NINE, TEN, jitter=HOUR), "jitter must be shorter than the interval, 1h"),
        (lambda: AllOf(NINE, Cron("0 * * * *", "UTC"), jitter=24 * HOUR), "jitter must be shorter"),
        (lambda: AnyOf(NINE, start=NOW, end=NOW + HOUR), "end is before the first fire"),
        (lambda: AnyOf(NINE, count=2), "count needs a start"),
    ],
)
def test_what_makes_no_schedule_is_refused(make, sentence):
    with pytest.raises(TaskValueError) as caught:
        make()
    assert str(caught.value).startswith(sentence)


def test_what_is_no_schedule_is_a_type_error():
    with pytest.raises(TaskTypeError):
        AnyOf(NINE, None)  # type: ignore[arg-type]


def test_all_of_takes_a_longer_jitter_than_one_of_its_schedules():
    assert AllOf(NINE, Cron("* * * * *", "UTC"), jitter=HOUR).jitter == HOUR
