"""Cron expressions. What they do where clocks are changed is in test_daylight.py."""

import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.exceptions import TaskException, TaskTypeError, TaskValueError
from django_tasks.schedules import Cron

UTC = timezone.utc
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)  # a Tuesday


def utc(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0
) -> datetime:
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "fire"),
    [
        ("* * * * *", utc(2026, 3, 10, 12, 1)),
        ("0 12 * * *", utc(2026, 3, 11, 12)),
        ("*/5 9-18 * * 1-5", utc(2026, 3, 10, 12, 5)),
        ("0 9 * * sun", utc(2026, 3, 15, 9)),
        ("0 9 * * 7", utc(2026, 3, 15, 9)),
        ("0 9 * jan *", utc(2027, 1, 1, 9)),
        ("0 9 L * *", utc(2026, 3, 31, 9)),
        ("0 9 * * 5L", utc(2026, 3, 27, 9)),
        ("0 9 * * MON#1", utc(2026, 4, 6, 9)),
        ("0 0 29 2 *", utc(2028, 2, 29)),
        ("*/20 * * * * *", utc(2026, 3, 10, 12, 0, 20)),
        ("59 59 23 31 12 *", utc(2026, 12, 31, 23, 59, 59)),
    ],
)
def test_what_an_expression_means(expression, fire):
    assert Cron(expression, "UTC").next_after(None, NOW) == fire


def test_times_are_those_of_the_zone_and_answers_utc():
    fire = Cron("0 9 * * *", tz="Asia/Shanghai").next_after(None, NOW)

    assert fire == utc(2026, 3, 11, 1)
    assert fire.tzinfo is UTC


def test_the_fire_is_strictly_later_than_now_to_the_microsecond():
    cron = Cron("* * * * * *", "UTC")

    assert cron.next_after(None, NOW) == NOW + timedelta(seconds=1)
    assert cron.next_after(None, NOW - timedelta(microseconds=1)) == NOW
    assert cron.next_after(None, NOW + timedelta(microseconds=1)) == NOW + timedelta(seconds=1)


def test_previous_is_nothing_to_a_cron():
    cron = Cron("0 9 * * *", "UTC")

    assert cron.next_after(NOW - timedelta(days=9), NOW) == cron.next_after(None, NOW)


def test_start_and_end_belong_to_the_schedule():
    cron = Cron("0 12 * * *", "UTC", start=NOW, end=NOW + timedelta(days=1))

    assert cron.next_after(None, NOW - timedelta(days=9)) == NOW
    assert cron.next_after(None, NOW) == NOW + timedelta(days=1)
    assert cron.next_after(None, NOW + timedelta(days=1)) is None


def test_a_count_is_of_the_fires_from_start():
    cron = Cron("0 12 * * *", "UTC", start=NOW, count=3)

    assert cron.next_after(None, NOW + timedelta(days=1)) == NOW + timedelta(days=2)
    assert cron.next_after(None, NOW + timedelta(days=2)) is None


def test_spelling_does_not_make_another_value():
    assert Cron(" 0  9 * * mon-fri", "UTC") == Cron("0 9 * * MON-FRI", ZoneInfo("UTC"))
    assert hash(Cron("0 9 * * sun")) == hash(Cron("0 9 * * SUN"))
    assert Cron("0 9 * * *") != Cron("0 9 * * *", fold="both")


@pytest.mark.parametrize(
    ("expression", "usual"),
    [
        ("0 9 * * *", ("next", "first")),
        ("0 0-23 * * *", ("next", "first")),
        ("0 * * * *", ("skip", "both")),
        ("0 */2 * * *", ("skip", "both")),
        ("0 0 */2 * * *", ("skip", "both")),
        ("* * 2 * * *", ("next", "first")),
    ],
)
def test_the_usual_policies_depend_on_the_hour_field(expression, usual):
    cron = Cron(expression)

    assert (cron.gap, cron.fold) == usual
    assert cron == Cron(expression, gap=usual[0], fold=usual[1])


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("", "cron is no cron expression (Wrong number of fields)"),
        ("0 9 * *", "cron is no cron expression (Wrong number of fields)"),
        ("61 * * * *", "cron is no cron expression (Bad minute)"),
        ("0 25 * * *", "cron is no cron expression (Bad hour)"),
        ("0 0 32 * *", "cron is no cron expression (Bad day-of-month)"),
        ("0 0 * * foo", "cron is no cron expression (Bad day-of-week)"),
        ("0 0 30 2 *", "cron is a schedule that never fires (Bad day-of-month)"),
        ("0 0 31 4,6,9,11 *", "cron is a schedule that never fires (Bad day-of-month)"),
        ("0 0 * 2 1#5,2#5 *", "cron is no cron expression"),
        ("*" * 1001, "cron is longer than 1,000 characters"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason_of_the_library(expression, sentence):
    with pytest.raises(TaskValueError) as caught:
        Cron(expression)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tz": "Mars/Olympus"}, "tz is no known time zone"),
        ({"gap": "jump"}, "gap must be one of"),
        ({"fold": ""}, "fold must be one of"),
        ({"jitter": 3600}, "jitter must be shorter than the interval, 1h"),
        ({"count": 2}, "count needs a start"),
        ({"start": NOW, "count": 100_001}, "count must be a whole number from"),
        ({"start": NOW, "end": NOW + timedelta(minutes=59)}, "end is before the first fire"),
    ],
)
def test_options_that_make_no_schedule_are_refused(options, sentence):
    with pytest.raises(TaskValueError) as caught:
        Cron("30 9,10 * * *", **{"tz": "UTC", **options})
    assert str(caught.value).startswith(sentence)


def test_a_time_that_is_always_in_the_gap_and_skipped_never_fires():
    with pytest.raises(TaskValueError, match="is a schedule that never fires"):
        Cron("30 2 * 3 0L", "Europe/Berlin", gap="skip")


def test_anything_but_a_text_is_a_type_error():
    with pytest.raises(TaskTypeError, match="five or six fields"):
        Cron(5)  # type: ignore[arg-type]


def test_the_extra_is_named_if_cronsim_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cronsim", None)

    with pytest.raises(
        TaskException, match=r"pip install 'django-delayed-tasks\[cron\]'"
    ) as caught:
        Cron("17 9 * * 2")  # no other test has made it: expressions are remembered
    assert not isinstance(caught.value, TaskValueError)


def test_the_last_year_is_the_end():
    assert Cron("0 9 * * *", "UTC").next_after(None, utc(9999, 12, 31, 10)) is None
    assert Cron("0 9 1 1 *", "Asia/Shanghai").next_after(None, utc(9999, 6, 1)) is None


@given(st.text(st.sampled_from("0123456789*/,-#LWljanmo ?\t²"), max_size=30))
def test_any_text_is_a_schedule_or_refused(text):
    try:
        cron = Cron(text)
    except TaskValueError:
        return
    fire = cron.next_after(None, NOW)
    assert fire is not None
    assert fire > NOW


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("0 9 5-5/10 * *", "0 9 5 * *"),
        ("0 9-9/2 * * *", "0 9 * * *"),
        ("0-0/5 9 1,7-7/3 * MON-MON/2,5", "0 9 1,7 * MON,5"),
    ],
)
def test_a_step_through_one_value_leaves_it(text, plain):
    assert Cron(text, "UTC") == Cron(plain, "UTC")
