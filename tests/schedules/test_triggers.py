"""APScheduler's triggers as schedules: the same fires."""

from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import AnyOf, Cron, Every, Schedule, from_apscheduler, parse
from tests.schedules.strategies import possible

UTC = timezone.utc
TICK = timedelta.resolution
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)  # a Tuesday
BERLIN = ZoneInfo("Europe/Berlin")
WINDOW = {
    "start_date": datetime(2026, 4, 1, 12, tzinfo=UTC),
    "end_date": datetime(2026, 4, 3, tzinfo=UTC),
}


def utc(year, month, day, hour=0, minute=0, second=0):
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def ours(schedule: Schedule, now: datetime, most: int) -> list[datetime]:
    found: list[datetime] = []
    fire = schedule.next_after(None, now)
    while fire is not None and len(found) < most:
        found.append(fire)
        fire = schedule.next_after(fire, fire)
    return found


def theirs(trigger: Any, now: datetime, most: int) -> list[datetime]:
    found: list[datetime] = []
    previous = None
    while len(found) < most:
        fire = trigger.get_next_fire_time(previous, now + TICK)
        if fire is None:
            break
        now = fire.astimezone(UTC)
        found.append(now)
        # Given one, an AndTrigger whose parts do not agree at once asks them the same for ever.
        previous = None if isinstance(trigger, AndTrigger) else fire
    return found


def same(trigger, now=NOW, most=50):
    """The schedule of a trigger, once its fires have been seen to be the same."""
    schedule = from_apscheduler(trigger)

    assert ours(schedule, now, most) == theirs(trigger, now, most)
    assert parse(str(schedule)) == schedule
    return schedule


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (
            CronTrigger(day="last fri", hour=9, timezone="Europe/Berlin"),
            "cron day=last fri hour=9 minute=0 Europe/Berlin",
        ),
        (
            CronTrigger(week="1-26", day_of_week="0-4", minute="*/20", timezone=UTC),
            "cron week=1-26 day_of_week=mon-fri hour=* minute=*/20 UTC",
        ),
        (CronTrigger(timezone="UTC"), "cron hour=* minute=* second=* UTC"),
        (CronTrigger(hour="0-0/5,9", timezone="UTC"), "cron hour=0,9 minute=0 UTC"),
        (CronTrigger(day_of_week="mon#1", timezone="UTC"), "cron day_of_week=mon hour=0 minute=0"),
        (
            CronTrigger(
                hour="9-17",
                start_date=utc(2026, 4, 1, 12),
                end_date=utc(2026, 4, 3),
                timezone="UTC",
            ),
            "cron hour=9-17 minute=0 UTC from 2026-04-01T12:00:00+00:00 until 2026-04-03T00:00:00",
        ),
    ],
)
def test_a_cron_trigger_comes_over_with_its_fields_its_window_and_its_zone(trigger, text):
    assert str(same(trigger)).startswith(text)
    assert Cron.from_apscheduler(trigger) == from_apscheduler(trigger)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 0 * * 0", "day_of_week=mon hour=0 minute=0"),
        ("*/5 9-17 * * mon-fri", "day_of_week=mon-fri hour=9-17 minute=*/5"),
        ("0 9 13 * 4", "day=13 day_of_week=fri hour=9 minute=0"),
        ("30 8 1 jan *", "month=1 day=1 hour=8 minute=30"),
    ],
)
def test_a_text_for_from_crontab_means_what_it_means_there(text, said):
    schedule = from_apscheduler(text, "UTC")

    assert str(schedule) == f"cron {said} UTC"
    assert ours(schedule, NOW, 20) == theirs(CronTrigger.from_crontab(text, "UTC"), NOW, 20)


def test_a_text_is_in_the_zone_of_the_project_and_a_trigger_in_its_own(settings):
    settings.TIME_ZONE = "Asia/Tokyo"
    trigger = CronTrigger(hour=9, timezone="Europe/Berlin")

    assert from_apscheduler("0 9 * * *") == Cron(hour=9, tz="Asia/Tokyo")
    assert from_apscheduler(trigger) == Cron(hour=9, tz="Europe/Berlin")
    assert from_apscheduler(trigger, "America/New_York") == Cron(hour=9, tz="America/New_York")


def test_a_zone_without_a_name_must_be_given():
    trigger = CronTrigger(hour=9, timezone=timezone(timedelta(hours=8)))

    with pytest.raises(TaskValueError, match="tz is no known time zone"):
        from_apscheduler(trigger)
    assert from_apscheduler(trigger, "Asia/Shanghai") == Cron(hour=9, tz="Asia/Shanghai")


def test_a_jitter_comes_over_and_must_be_shorter_than_the_interval():
    assert from_apscheduler(CronTrigger(hour=9, timezone="UTC", jitter=60)) == Cron(
        hour=9, tz="UTC", jitter=60
    )
    with pytest.raises(TaskValueError, match="jitter must be shorter"):
        from_apscheduler(CronTrigger(minute="*/5", timezone="UTC", jitter=300))


def test_intervals_and_dates_come_over():
    trigger = IntervalTrigger(hours=1, minutes=30, timezone="UTC", **WINDOW)

    assert same(trigger, utc(2026, 2, 1)) == Every(
        minutes=90, start=WINDOW["start_date"], end=WINDOW["end_date"]
    )
    once = same(DateTrigger(datetime(2026, 12, 24, 18), "Europe/Berlin"))
    assert str(once) == "at 2026-12-24T18:00:00+01:00"


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "years": st.integers(0, 2),
            "months": st.integers(0, 14),
            "weeks": st.integers(0, 3),
            "days": st.integers(0, 40),
            "hour": st.integers(0, 23),
            "minute": st.integers(0, 59),
        },
    ),
    st.dates(date(2000, 1, 1), date(2030, 12, 31)),
)
def test_dates_come_over_to_the_day(interval, start):
    try:
        trigger = CalendarIntervalTrigger(start_date=start, timezone="UTC", **interval)
    except ValueError:
        return

    if possible(from_apscheduler, trigger) is not None:
        same(trigger, utc(1999, 12, 31), 30)
    else:  # of no other step it would be the same
        months = 12 * trigger.years + trigger.months
        assert start.day > 28
        assert 12 % months
        assert months % 12


@pytest.mark.parametrize(
    ("interval", "start", "said"),
    [
        ({"months": 1}, date(2026, 1, 31), "cron month=1,2,3,4,5,6,7,8,9,10,11,12 day=31 hour=0"),
        ({"months": 6}, date(2026, 8, 30), "cron month=2,8 day=30 hour=0 minute=0 UTC gap skip"),
        ({"years": 1}, date(2024, 2, 29), "cron year=2024-9999 month=2 day=29 hour=0 minute=0 UTC"),
        ({"months": 2, "days": 8}, date(2026, 1, 31), "every 2 months and 8 days at 00:00 UTC"),
    ],
)
def test_a_day_that_not_every_month_has_is_left_out_as_there(interval, start, said):
    trigger = CalendarIntervalTrigger(start_date=start, timezone="UTC", **interval)

    assert str(same(trigger, utc(2020, 1, 1))).startswith(said)


def test_dates_in_a_gap_are_left_out_and_the_last_day_belongs_to_them():
    trigger = CalendarIntervalTrigger(
        days=1,
        hour=2,
        minute=30,
        start_date=date(2026, 3, 27),
        end_date=date(2026, 4, 2),
        timezone="Europe/Berlin",
    )

    days = [fire.astimezone(BERLIN).day for fire in ours(same(trigger), utc(2026, 3, 1), 99)]
    assert days == [27, 28, 30, 31, 1, 2]


def test_combinations_come_over():
    workdays = CronTrigger(day_of_week="mon-fri", hour=9, timezone="UTC")
    first = CronTrigger(day=1, hour="*/3", timezone="UTC")

    assert str(same(AndTrigger([workdays, first]))).startswith("all of (cron day_of_week=mon-fri")
    either = same(OrTrigger([workdays, first], jitter=None))
    assert isinstance(either, AnyOf)
    assert from_apscheduler(OrTrigger([workdays, first], jitter=60)).jitter == timedelta(minutes=1)


class Own(CronTrigger):  # type: ignore[misc]
    """May answer as it likes."""


@pytest.mark.parametrize("trigger", [None, 5, Own(hour=9, timezone="UTC"), CronTrigger, object()])
def test_anything_else_is_a_type_error(trigger):
    with pytest.raises(TaskTypeError, match="trigger must be one of APScheduler's own"):
        from_apscheduler(trigger)


@pytest.mark.parametrize("trigger", [None, 5, DateTrigger(NOW, "UTC")])
def test_a_cron_is_made_of_a_cron_trigger_only(trigger):
    with pytest.raises(TaskTypeError, match="cron must be a CronTrigger"):
        Cron.from_apscheduler(trigger)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0 9 * *", "cron must have 5 fields"),
        ("0 9 * * 7", "day_of_week has '7', which is not from 0 to 6"),
        ("0 9 * * mon#1", "day_of_week has 'mon#1', which is none of"),
    ],
)
def test_a_text_that_means_nothing_there_is_refused(text, sentence):
    with pytest.raises(TaskValueError, match="^" + sentence.replace("*", r"\*")):
        from_apscheduler(text, "UTC")
