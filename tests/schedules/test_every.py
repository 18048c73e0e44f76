"""Again and again: exact durations, and dates on a calendar."""

from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import Cron, Every

UTC = timezone.utc
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def utc(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0
) -> datetime:
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def fires(schedule, number, previous=None, now=NOW):
    """The next fires, each asked for when the one before it has come."""
    found = []
    for _ in range(number):
        now = schedule.next_after(previous, now)
        if now is None:
            break
        found.append(now)
        previous = now
    return found


# Exact durations


def test_without_a_start_the_first_fire_is_an_interval_from_now():
    assert Every(minutes=30).next_after(None, NOW) == NOW + 30 * MINUTE


@pytest.mark.parametrize(
    ("late", "minutes"), [(0, 30), (1, 30), (29.999, 30), (30, 60), (31, 60), (100, 120)]
)
def test_without_a_start_the_beat_goes_on_from_the_previous_time(late, minutes):
    fire = Every(minutes=30).next_after(NOW, NOW + late * MINUTE)

    assert fire == NOW + minutes * MINUTE


def test_a_start_sets_the_beat_whatever_was_previous():
    every = Every(hours=1, start=utc(2026, 1, 1, 0, 15))

    for previous in (None, NOW, NOW - 7 * MINUTE):
        assert every.next_after(previous, NOW) == utc(2026, 3, 10, 12, 15)


def test_start_and_end_belong_to_the_schedule():
    every = Every(hours=1, start=NOW, end=NOW + timedelta(hours=2))

    assert fires(every, 9, now=NOW - timedelta(days=9)) == [
        NOW,
        NOW + timedelta(hours=1),
        NOW + timedelta(hours=2),
    ]


def test_a_count_is_of_the_fires_from_start():
    every = Every(hours=1, start=NOW, count=3)

    assert fires(every, 9, now=NOW - timedelta(days=9)) == fires(
        Every(hours=1, start=NOW), 3, now=NOW - timedelta(days=9)
    )
    assert every.next_after(None, NOW + timedelta(hours=2)) is None


def test_a_huge_count_is_computed_and_not_counted():
    every = Every(seconds=1, start=utc(2000, 1, 1), count=1_000_000_000)

    assert every.next_after(None, NOW) == NOW + timedelta(seconds=1)


def test_a_time_that_no_datetime_can_hold_is_the_end():
    assert Every(days=400_000).next_after(None, utc(9000, 1, 1)) is None
    assert Every(timedelta.max).next_after(None, NOW) is None


def test_the_same_duration_said_otherwise_is_the_same_value():
    assert Every(minutes=90) == Every(hours=1.5) == Every(timedelta(hours=1, minutes=30))
    assert len({Every(weeks=1), Every(days=7), Every(hours=168)}) == 1
    assert Every(minutes=30) != Every(minutes=31)


def test_answers_are_in_utc_whatever_was_asked_in():
    now = NOW.astimezone(ZoneInfo("Asia/Shanghai"))

    fire = Every(minutes=30, start=now).next_after(None, now)

    assert fire == NOW + 30 * MINUTE
    assert fire.tzinfo is UTC


# Dates


def test_the_31st_is_the_last_day_of_a_shorter_month():
    every = Every(months=1, day=31, at="09:00", tz="Asia/Shanghai")

    assert fires(every, 4, now=utc(2028, 1, 31, 0)) == [
        utc(2028, 1, 31, 1),
        utc(2028, 2, 29, 1),
        utc(2028, 3, 31, 1),
        utc(2028, 4, 30, 1),
    ]


def test_a_day_at_a_time_of_day_keeps_its_local_time():
    every = Every(days=1, at="09:00", tz="Europe/Berlin")

    assert fires(every, 3, now=utc(2026, 3, 27, 12)) == [
        utc(2026, 3, 28, 8),
        utc(2026, 3, 29, 7),
        utc(2026, 3, 30, 7),
    ]


@pytest.mark.parametrize("previous", [None, utc(2026, 2, 17)])
def test_months_that_divide_a_year_are_counted_from_january(previous):
    every = Every(months=3, day=15, tz="UTC")

    assert fires(every, 3, previous) == [utc(2026, 4, 15), utc(2026, 7, 15), utc(2026, 10, 15)]


def test_other_months_are_counted_from_the_previous_time():
    every = Every(months=5, tz="UTC")

    assert every.next_after(utc(2025, 12, 1), NOW) == utc(2026, 5, 1)
    assert every.next_after(None, NOW) == utc(2026, 8, 1)


def test_months_are_counted_from_the_month_of_start():
    every = Every(months=3, start=utc(2025, 11, 30, 7), tz="UTC")

    assert fires(every, 3) == [utc(2026, 5, 30, 7), utc(2026, 8, 30, 7), utc(2026, 11, 30, 7)]


def test_a_start_gives_the_day_and_the_time_of_day_in_the_zone():
    every = Every(months=1, start=utc(2026, 1, 30, 22, 30), tz="Asia/Shanghai")

    assert str(every).startswith("every 1 month on day 31 at 06:30 Asia/Shanghai")
    assert fires(every, 2) == [utc(2026, 3, 30, 22, 30), utc(2026, 4, 29, 22, 30)]


def test_days_are_counted_from_start_or_the_previous_time():
    every = Every(days=3, at="09:00", tz="UTC")
    started = Every(days=3, at="09:00", tz="UTC", start=utc(2026, 3, 1))

    assert every.next_after(utc(2026, 3, 9, 9), NOW) == utc(2026, 3, 12, 9)
    assert every.next_after(None, NOW) == utc(2026, 3, 13, 9)
    assert every.next_after(None, utc(2026, 3, 10, 8)) == utc(2026, 3, 10, 9)
    assert started.next_after(utc(2026, 3, 9, 9), NOW) == utc(2026, 3, 13, 9)


@pytest.mark.parametrize(("gap", "minute"), [("next", 0), ("shift", 30)])
def test_a_beat_of_days_survives_a_gap_before_midnight(gap, minute):
    """Clocks in Nuuk go from 23:00 on the 30th to 0:00 on the 31st: a fire has its date moved."""
    every = Every(days=2, at="23:30", tz="America/Nuuk", gap=gap)
    moved = every.next_after(utc(2024, 3, 29, 1, 30), utc(2024, 3, 29, 1, 30))

    assert moved == utc(2024, 3, 31, 1, minute)
    assert every.next_after(moved, moved) == utc(2024, 4, 2, 0, 30)


def test_years_are_counted_from_start_else_begin_in_january():
    assert Every(years=1, tz="UTC").next_after(None, NOW) == utc(2027, 1, 1)
    leap = Every(years=1, tz="UTC", start=utc(2024, 2, 29))
    assert fires(leap, 2, now=utc(2026, 12, 1)) == [utc(2027, 2, 28), utc(2028, 2, 29)]


def test_counted_dates_end():
    every = Every(months=1, day=31, tz="UTC", start=utc(2026, 1, 1), count=2)

    assert fires(every, 9, now=utc(2025, 1, 1)) == [utc(2026, 1, 31), utc(2026, 2, 28)]


def test_a_time_of_day_is_a_text_or_a_time_and_a_zone_a_name_or_a_zoneinfo():
    text = Every(days=1, at="9:00", tz="Europe/Berlin")

    assert text == Every(days=1, at=time(9), tz=ZoneInfo("Europe/Berlin"))
    assert Every(days=1, tz="utc") == Every(days=1, at="00:00:00", tz="UTC")


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("9am", "09:00"),
        ("6:30 PM", "18:30"),
        ("12am", "00:00"),
        ("12 pm", "12:00"),
        ("noon", "12:00"),
        ("Midnight", "00:00"),
        ("17", "17:00"),
        ("9:00:30.25", "09:00:30.250000"),
    ],
)
def test_a_time_of_day_may_be_written_as_people_do(at, said):
    assert Every(days=1, at=at, tz="UTC") == Every(days=1, at=time.fromisoformat(said), tz="UTC")


def test_dates_without_a_zone_are_of_the_projects(settings):
    settings.TIME_ZONE = "Europe/Berlin"

    assert Every(days=1, at="09:00") == Every(days=1, at="09:00", tz="Europe/Berlin")
    assert Every(months=1).next_after(None, NOW) == utc(2026, 3, 31, 22)
    assert Every(days=1) == Every(hours=24)


def test_a_step_of_a_century_is_taken():
    every = Every(years=100, tz="UTC", start=utc(2000, 1, 1))

    assert fires(every, 3, now=utc(2000, 1, 1)) == [
        utc(2100, 1, 1),
        utc(2200, 1, 1),
        utc(2300, 1, 1),
    ]


# Months, then days


def test_months_come_before_days():
    every = Every(months=2, days=8, at="09:00", tz="UTC", start=utc(2026, 1, 5))

    assert fires(every, 4, now=utc(2026, 1, 1)) == [
        utc(2026, 1, 5, 9),
        utc(2026, 3, 13, 9),
        utc(2026, 5, 21, 9),
        utc(2026, 7, 29, 9),
    ]


def test_before_the_days_months_without_such_a_day_are_stepped_over():
    every = Every(months=1, days=1, tz="UTC", start=utc(2026, 1, 31))

    assert fires(every, 3, now=utc(2026, 1, 1)) == [
        utc(2026, 1, 31),
        utc(2026, 4, 1),
        utc(2026, 5, 2),
    ]


def test_months_and_days_go_on_from_the_previous_time_if_nothing_started_them():
    every = Every(months=1, weeks=1, at="09:00", tz="UTC")

    assert every.next_after(utc(2026, 2, 20, 9), NOW) == utc(2026, 3, 27, 9)
    assert every.next_after(None, NOW) == utc(2026, 4, 17, 9)
    assert every.next_after(utc(2026, 5, 1, 9), NOW) == utc(2026, 5, 1, 9)


def test_a_count_is_of_months_with_days_too():
    every = Every(months=1, days=1, tz="UTC", start=utc(2026, 1, 1), count=3)

    assert fires(every, 9, now=utc(2025, 1, 1)) == [
        utc(2026, 1, 1),
        utc(2026, 2, 2),
        utc(2026, 3, 3),
    ]


def test_the_last_year_is_the_end_of_months_and_days():
    assert Every(months=1, days=1, tz="UTC").next_after(None, utc(9999, 12, 15)) is None


def test_the_last_year_is_the_end():
    every = Every(years=1, tz="Europe/Berlin")

    assert every.next_after(None, utc(9999, 6, 1)) is None
    assert Every(days=1, tz="UTC").next_after(None, utc(9999, 12, 30)) is None


# Refused


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "every must be longer than nothing"),
        ({"hours": 0}, "every must be longer than nothing"),
        ({"minutes": -5}, "every must be longer than nothing"),
        ({"hours": float("nan")}, "every is no duration"),
        ({"weeks": 1e12}, "every is no duration"),
        ({"hours": "1"}, "every must be of numbers"),
        ({"months": 1, "tz": "Mars/Olympus"}, "tz is no known time zone"),
        ({"months": 1, "tz": "../../etc/passwd"}, "tz is no known time zone"),
        ({"months": 1, "tz": "Europe"}, "tz is no known time zone"),
        ({"months": 1, "tz": 8}, "tz must be the name of a time zone"),
        ({"months": 1, "hours": 1, "tz": "UTC"}, "every must be of whole days"),
        ({"hours": 1, "tz": "UTC"}, "every must be of whole days"),
        ({"hours": 1, "gap": "skip"}, "every must be of whole days"),
        ({"days": 1.5, "tz": "UTC"}, "days must be a whole number"),
        ({"months": True, "tz": "UTC"}, "months must be a whole number"),
        ({"months": -1, "tz": "UTC"}, "months must be a whole number from 0 to 12000"),
        ({"months": 1, "days": 1, "day": 1, "tz": "UTC"}, "day is one of a month"),
        ({"tz": "UTC"}, "every must be longer than nothing"),
        ({"days": 1, "day": 3, "tz": "UTC"}, "day is one of a month"),
        ({"months": 1, "day": 32, "tz": "UTC"}, "day must be a whole number from 1 to 31"),
        ({"months": 1, "day": 0, "tz": "UTC"}, "day must be a whole number from 1 to 31"),
        ({"days": 1, "at": "25:00", "tz": "UTC"}, "at must be a time of day"),
        ({"days": 1, "at": "tea", "tz": "UTC"}, "at must be a time of day"),
        ({"days": 1, "at": "0 am", "tz": "UTC"}, "at must be a time of day (hour must be in 1..12"),
        ({"days": 1, "at": "", "tz": "UTC"}, "at must be a time of day"),
        ({"days": 1, "at": 9, "tz": "UTC"}, "at must be a time of day"),
        ({"days": 1, "at": time(9, tzinfo=UTC), "tz": "UTC"}, "at must have no time zone"),
        ({"days": 1, "tz": "UTC", "gap": "jump"}, "gap must be one of skip, next, shift"),
        ({"days": 1, "tz": "UTC", "fold": "last"}, "fold must be one of first, second, both"),
        ({"hours": 1, "start": datetime(2026, 1, 1)}, "start must be aware"),
        ({"hours": 1, "start": "2026-01-01"}, "start must be a datetime"),
        ({"hours": 1, "end": datetime.min.replace(tzinfo=UTC)}, "end is out of the databases'"),
        ({"hours": 1, "start": NOW, "end": NOW - MINUTE}, "end is before start"),
        ({"days": 1, "tz": "UTC", "start": NOW, "at": "11:00", "end": NOW + MINUTE}, "end is bef"),
        ({"hours": 1, "jitter": 3600}, "jitter must be shorter than the interval, 1h"),
        ({"hours": 1, "jitter": timedelta(hours=2)}, "jitter must be shorter"),
        ({"months": 1, "tz": "UTC", "jitter": timedelta(days=28)}, "jitter must be shorter"),
        ({"hours": 1, "jitter": -1}, "jitter must not be negative"),
        ({"hours": 1, "jitter": "5s"}, "jitter must be a timedelta or a number of seconds"),
        ({"hours": 1, "jitter": float("inf")}, "jitter is no duration"),
        ({"hours": 1, "count": 3}, "count needs a start: fires are counted from there"),
        ({"hours": 1, "start": NOW, "count": 0}, "count must be a whole number from 1 to"),
        ({"hours": 1, "start": NOW, "count": 1.0}, "count must be a whole number"),
        (
            {"months": 1, "days": 1, "tz": "UTC", "start": NOW, "count": 1_001},
            "count must be a whole number from 1 to 1000",
        ),
        (
            {"days": 1, "tz": "UTC", "start": NOW, "count": 100_001},
            "count must be a whole number from 1 to",
        ),
    ],
)
def test_what_makes_no_schedule_is_refused(arguments, sentence):
    with pytest.raises(TaskValueError) as caught:
        Every(**arguments)
    assert str(caught.value).startswith(sentence)


def test_an_unknown_option_is_a_type_error():
    with pytest.raises(TypeError, match="no option strat"):
        Every(hours=1, strat=NOW)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("schedule", "arguments", "sentence"),
    [
        (Every, {"minute": 30}, "no option minute; did you mean 'minutes'"),
        (Cron, {"hours": 3}, "no option hours; did you mean 'hour'"),
        (Every, {"strat": NOW}, "no option strat; did you mean 'start'"),
        (Every, {"ends": NOW}, "no option ends; did you mean 'end'"),
        (Every, {"counts": 3}, "no option counts; did you mean 'count'"),
        (Cron, {"weekday": 1}, "no option weekday; here it is called day_of_week"),
        (Cron, {"day_of_month": 1}, "no option day_of_month; here it is called day$"),
        (Every, {"weekday": 1}, "no option weekday$"),
        (Every, {"date": NOW}, "no option date$"),
        (Every, {"start_date": NOW}, "no option start_date; here it is called start"),
        (Every, {"colour": "red"}, "no option colour$"),
    ],
)
def test_an_option_that_is_meant_is_named(schedule, arguments, sentence):
    with pytest.raises(TypeError, match=sentence):
        schedule(**arguments)


def test_anything_but_a_timedelta_is_a_type_error():
    with pytest.raises(TaskTypeError, match="timedelta"):
        Every(30)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("previous", "now", "field"),
    [(None, datetime(2026, 1, 1), "now"), (datetime(2026, 1, 1), NOW, "previous")],
)
def test_naive_datetimes_are_refused(previous, now, field):
    with pytest.raises(TaskValueError, match=f"{field} must be aware"):
        Every(hours=1).next_after(previous, now)


def test_other_things_than_datetimes_are_a_type_error():
    with pytest.raises(TaskTypeError, match="now must be a datetime"):
        Every(hours=1).next_after(None, 5)  # type: ignore[arg-type]
