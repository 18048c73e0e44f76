"""Other values that may be given where a schedule is wanted."""

from datetime import datetime, timedelta, timezone

import pytest

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import AnyOf, Cron, Every, Foreign, as_schedule, parse

UTC = timezone.utc
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Interval:
    """As APScheduler's IntervalTrigger: goes on from the previous fire, missed or not."""

    def __init__(self, interval):
        self.interval = interval
        self.asked = []

    def get_next_fire_time(self, previous_fire_time, now):
        self.asked.append((previous_fire_time, now))
        if previous_fire_time:
            return previous_fire_time + self.interval
        return NOW - (NOW - now) // self.interval * self.interval

    def __repr__(self):
        return f"<Interval\n  ({self.interval})>"


class Once:
    """As APScheduler's DateTrigger: the first answer may have passed."""

    def get_next_fire_time(self, previous_fire_time, now):
        return None if previous_fire_time else NOW


class Stuck:
    def get_next_fire_time(self, previous_fire_time, now):
        return NOW


def test_values_are_taken_as_what_they_mean():
    cron = Cron("0 9 * * *")

    assert as_schedule(cron) is cron
    assert as_schedule("every 30m") == Every(minutes=30)
    assert as_schedule(timedelta(minutes=30)) == Every(minutes=30)
    trigger = Interval(MINUTE)
    assert as_schedule(trigger) == Foreign(trigger)


@pytest.mark.parametrize("value", [None, 30, object(), Interval, Every, NOW, b"every 30m", ["1"]])
def test_anything_else_is_a_type_error(value):
    with pytest.raises(TaskTypeError, match="must be a schedule"):
        as_schedule(value)


@pytest.mark.parametrize(("value", "field"), [(timedelta(0), "every"), ("soon", "schedule")])
def test_a_text_or_a_timedelta_that_makes_none_is_a_value_error(value, field):
    with pytest.raises(TaskValueError) as caught:
        as_schedule(value)
    assert caught.value.field == field


def test_a_trigger_is_asked_with_the_previous_time_and_a_now_just_past_ours():
    trigger = Interval(MINUTE)

    assert Foreign(trigger).next_after(NOW, NOW) == NOW + MINUTE
    assert trigger.asked == [(NOW, NOW + timedelta(microseconds=1))]


@pytest.mark.parametrize("minutes", [1, 50, 5000])
def test_fires_that_a_trigger_has_missed_are_passed(minutes):
    trigger = Interval(MINUTE)

    fire = Foreign(trigger).next_after(NOW, NOW + minutes * MINUTE)

    assert fire == NOW + (minutes + 1) * MINUTE
    assert len(trigger.asked) < 110


def test_a_trigger_that_has_passed_is_over():
    assert Foreign(Once()).next_after(None, NOW - MINUTE) == NOW
    assert Foreign(Once()).next_after(None, NOW) is None
    assert Foreign(Once()).next_after(NOW, NOW) is None


def test_a_trigger_that_never_comes_further_is_an_error():
    with pytest.raises(TaskValueError, match="trigger has nothing later than 2026-03-10"):
        Foreign(Stuck()).next_after(None, NOW)


@pytest.mark.parametrize(
    ("answer", "error"), [(datetime(2026, 3, 10), TaskValueError), ("soon", TaskTypeError)]
)
def test_an_answer_that_is_no_aware_datetime_is_an_error(answer, error):
    class Odd:
        def get_next_fire_time(self, previous_fire_time, now):
            return answer

    with pytest.raises(error, match="trigger must be"):
        Foreign(Odd()).next_after(None, NOW)


def test_options_and_combinations():
    foreign = Foreign(Interval(MINUTE), start=NOW + 5 * MINUTE, count=2)

    assert foreign.next_after(None, NOW) == NOW + 5 * MINUTE
    assert foreign.next_after(None, NOW + 5 * MINUTE) == NOW + 6 * MINUTE
    assert foreign.next_after(None, NOW + 6 * MINUTE) is None
    assert AnyOf(Foreign(Once()), Cron("0 9 * * *", "UTC")).next_after(None, NOW - MINUTE) == NOW


def test_the_text_says_what_it_is_and_cannot_be_read_back():
    foreign = Foreign(Interval(MINUTE), jitter=5)

    assert str(foreign) == "trigger <Interval (0:01:00)> jitter 5s"
    for text in (str(foreign), f"any of ({foreign}; every 30m)"):
        with pytest.raises(TaskValueError, match="only the code knows"):
            parse(text)


def test_a_trigger_need_not_be_hashable():
    class Unhashable(Interval):
        __hash__ = None  # type: ignore[assignment]

    trigger = Unhashable(MINUTE)

    assert {Foreign(trigger): 1}[Foreign(trigger)] == 1
    assert Foreign(trigger) != Foreign(Unhashable(MINUTE))


def test_only_what_can_be_asked_is_a_trigger():
    with pytest.raises(TaskTypeError, match="trigger must have get_next_fire_time"):
        Foreign(timedelta(1))
