"""APScheduler's fields by name: the same fires as those of its CronTrigger."""

import sys
import time
from datetime import datetime, timedelta, timezone
from itertools import islice, product

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import example, given
from hypothesis import strategies as st

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import AllOf, Cron, parse
from django_tasks.schedules.wall_clock import FOLDS, GAPS
from tests.schedules.strategies import instants, possible

UTC = timezone.utc
TICK = timedelta.resolution
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)  # a Tuesday

# So far ahead both are asked: the longest that one waits for a February 29 on a Monday, and more.
AHEAD = timedelta(days=45 * 366)


def utc(year, month, day, hour=0, minute=0, second=0):
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def fires(cron, now, most=5):
    """The next fires, up to the last year that is looked at."""
    found: list[datetime] = []
    until = now + AHEAD
    while len(found) < most and (now := cron.next_after(None, now)) is not None and now <= until:
        found.append(now)
    return found


def theirs(trigger, now, most=5):
    """The same of APScheduler's trigger, whose ``now`` may be its answer."""
    found: list[datetime] = []
    trigger.end_date = now + AHEAD
    while len(found) < most and (fire := trigger.get_next_fire_time(None, now + TICK)):
        now = fire.astimezone(UTC)
        found.append(now)
    trigger.end_date = None
    return found


def numbers(least, most):
    """The forms of a field, on numbers from ``least`` to ``most``."""
    number = st.integers(least, most)
    pairs = st.tuples(number, number).map(sorted)
    steps = st.integers(1, max(2, (most - least) // 3))
    return st.one_of(
        st.just("*"),
        number,
        number.map(str),
        pairs.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        steps.map(lambda step: f"*/{step}"),
        st.tuples(pairs, steps).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
        st.tuples(number, steps).map(lambda both: f"{both[0]}/{both[1]}"),
    )


def lists(item):
    several = st.lists(item, min_size=2, max_size=3).map(lambda items: ", ".join(map(str, items)))
    return item | several


months = st.sampled_from(("jan", "Feb", "feb-jun", "nov-dec", "DEC"))
weekdays = st.sampled_from(("mon", "Sun", "mon-fri", "tue-thu", "sat-sun"))
positions = st.sampled_from(("last", "1st mon", "3rd Fri", "5th wed", "last sun", "2nd  tue"))
FIELDS = {
    "year": lists(numbers(1970, 2060)),
    "month": lists(numbers(1, 12) | months),
    "day": lists(numbers(1, 31) | positions),
    "week": lists(numbers(1, 53)),
    "day_of_week": lists(numbers(0, 6) | weekdays),
    "hour": lists(numbers(0, 23)),
    "minute": lists(numbers(0, 59)),
    "second": lists(numbers(0, 59)),
}
expressions = st.dictionaries(
    st.sampled_from(sorted(FIELDS)), st.none(), min_size=1, max_size=4
).flatmap(lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names}))


@given(expressions, instants)
@example({"month": 2, "day": 29, "day_of_week": 0}, utc(2000, 1, 1))
@example({"week": 53, "day_of_week": "sun"}, utc(2015, 12, 27))
@example({"week": "1", "month": 12}, utc(2000, 1, 1))
@example({"year": "2027/7", "day": "last,1st mon", "hour": "*/5"}, utc(2026, 12, 31, 23, 59, 59))
@example({"second": "*"}, utc(2026, 12, 31, 23, 59, 59))
@example({"year": "*"}, utc(2026, 12, 31))
@example({"week": "*"}, utc(2026, 12, 31))
@example({"day_of_week": "5/1,0"}, utc(2026, 12, 31))
def test_fires_are_those_of_apscheduler(fields, now):
    try:
        trigger = CronTrigger(timezone="UTC", **fields)
    except ValueError:
        with pytest.raises(TaskValueError):
            Cron(tz="UTC", **fields)
        return
    expected = theirs(trigger, now)
    cron = possible(Cron, tz="UTC", **fields)

    if cron is None:
        assert expected == []
    else:
        assert fires(cron, now) == expected
        assert Cron.from_apscheduler(trigger) == cron


@given(expressions)
def test_the_text_reads_back_the_same(fields):
    cron = possible(Cron, tz="Europe/Berlin", **fields)

    if isinstance(cron, Cron):
        assert parse(str(cron)) == cron
        assert str(parse(str(cron))) == str(cron)
        assert Cron(cron.expression, cron.tz) == cron


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"hour": 9}, "hour=9 minute=0"),
        ({"hour": 0}, "hour=0 minute=0"),
        ({"minute": "*/1"}, "hour=* minute=*"),
        ({"minute": "*/5", "day_of_week": "mon-fri"}, "day_of_week=mon-fri hour=* minute=*/5"),
        ({"second": "*"}, "hour=* minute=* second=*"),
        ({"second": 0}, "hour=* minute=*"),
        ({"month": 1}, "month=1 day=1 hour=0 minute=0"),
        ({"month": "jan,JUL-sep"}, "month=1,7-9 day=1 hour=0 minute=0"),
        ({"year": "*"}, "month=1 day=1 hour=0 minute=0"),
        ({"week": "01-26"}, "week=1-26 hour=0 minute=0"),
        ({"day": " Last ,1ST  Mon"}, "day=last,1st mon hour=0 minute=0"),
        ({"day_of_week": "0"}, "day_of_week=mon hour=0 minute=0"),
        ({"day_of_week": "0-6/2"}, "day_of_week=mon,wed,fri,sun hour=0 minute=0"),
        ({"hour": "9-17/8,9-9"}, "hour=9-17/8,9 minute=0"),
        ({"hour": "1-23/2"}, "hour=1/2 minute=0"),
    ],
)
def test_fields_are_printed_so_that_nobody_needs_the_rule_of_those_left_out(fields, text):
    cron = Cron(tz="UTC", **fields)

    assert str(cron) == f"cron {text} UTC"
    assert cron == parse(f"cron {text} UTC")


@pytest.mark.parametrize(
    ("fields", "fire"),
    [
        ({"hour": 9}, utc(2026, 3, 11, 9)),
        ({"month": 5}, utc(2026, 5, 1)),
        ({"day": "last fri", "hour": 18}, utc(2026, 3, 27, 18)),
        ({"day": 13, "day_of_week": "fri"}, utc(2026, 3, 13)),
        ({"day": 13, "day_of_week": "mon"}, utc(2026, 4, 13)),
        ({"week": 1}, utc(2027, 1, 4)),
        ({"week": 53, "day_of_week": 6}, utc(2027, 1, 3)),
        ({"year": "2027-2029", "month": 2, "day": 29}, utc(2028, 2, 29)),
        ({"year": 9998, "month": 12, "day": 31}, utc(9998, 12, 31)),
    ],
)
def test_all_fields_must_match_and_those_left_out_behind_the_last_are_at_their_first(fields, fire):
    assert Cron(tz="UTC", **fields).next_after(None, NOW) == fire


def test_after_the_last_year_there_is_nothing():
    cron = Cron(year="2027-2029", tz="UTC")

    assert list(islice(fires(cron, NOW), 9)) == [utc(2027, 1, 1), utc(2028, 1, 1), utc(2029, 1, 1)]
    assert cron.next_after(None, utc(2029, 1, 1)) is None
    assert Cron(year=2020, tz="UTC").next_after(None, NOW) is None
    assert Cron(hour=9, tz="UTC").next_after(None, utc(9999, 12, 31, 9)) is None


def test_a_fire_in_thousands_of_years_is_found_in_a_moment():
    cron = Cron(year="9000-9999", month=2, day=29, day_of_week="mon", week=9, tz="UTC")
    began = time.perf_counter()

    assert cron.next_after(None, NOW) == utc(9008, 2, 29)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    "fields", [{"month": 2, "day": 30}, {"month": 6, "week": 53}, {"month": "4-6/2,9", "day": 31}]
)
def test_what_never_matches_is_refused_in_a_moment(fields):
    began = time.perf_counter()

    with pytest.raises(TaskValueError, match="is a schedule that never fires"):
        Cron(tz="UTC", **fields)
    assert time.perf_counter() - began < 2


def test_years_to_come_agree_with_others():
    both = AllOf(Cron(year="2090-2092", hour=9, tz="UTC"), Cron(day="1st mon", hour=9, tz="UTC"))

    assert both.start is None
    assert both.next_after(None, utc(2089, 1, 1)) == utc(2090, 1, 2, 9)


@pytest.mark.parametrize(
    ("expression", "usual"),
    [
        ({"hour": 9}, ("next", "first")),
        ({"hour": "0-23"}, ("next", "first")),
        ({"minute": 0}, ("skip", "both")),
        ({"hour": "*/2"}, ("skip", "both")),
    ],
)
def test_the_usual_policies_depend_on_the_hour_field(expression, usual):
    cron = Cron(tz="Europe/Berlin", **expression)

    assert (cron.gap, cron.fold) == usual


def test_a_fire_in_a_gap_and_one_in_a_fold_come_as_those_of_an_expression():
    for text, named in (("30 2 * * *", "hour=2 minute=30"), ("0 * * * *", "minute=0")):
        for gap, fold in product(GAPS, FOLDS):
            crontab, fields = (
                Cron(each, "Europe/Berlin", gap=gap, fold=fold) for each in (text, named)
            )
            for day in (utc(2026, 3, 28), utc(2026, 10, 24)):
                assert fires(fields, day, 60) == fires(crontab, day, 60)


@pytest.mark.parametrize(
    ("fields", "error", "sentence"),
    [
        ({"minute": 60}, TaskValueError, "minute has '60', which is not from 0 to 59: 60"),
        ({"minute": "*/5,61"}, TaskValueError, "minute has '61', which is not from 0 to 59"),
        ({"hour": -1}, TaskValueError, "hour has '-1', which is none of '*', '*/2', '1'"),
        ({"hour": "17-9"}, TaskValueError, "hour has '17-9', which ends before it begins"),
        ({"hour": "*/0"}, TaskValueError, "hour has '*/0', whose step is not from 1 to 23"),
        ({"hour": "9-12/4"}, TaskValueError, "hour has '9-12/4', whose step is not from 1 to 3"),
        ({"day_of_week": 7}, TaskValueError, "day_of_week has '7', which is not from 0 to 6: 7"),
        ({"day_of_week": "monday"}, TaskValueError, "day_of_week has 'monday', which is none of"),
        ({"day_of_week": "fri-mon"}, TaskValueError, "day_of_week has 'fri-mon', which ends bef"),
        ({"day_of_week": "mon-fri/2"}, TaskValueError, "day_of_week has 'mon-fri/2', which is no"),
        ({"day": "6th mon"}, TaskValueError, "day has '6th mon', which is none of"),
        ({"day": "last foo"}, TaskValueError, "day has 'last foo', which is none of"),
        ({"month": "last"}, TaskValueError, "month has 'last', which is none of"),
        ({"year": 1969}, TaskValueError, "year has '1969', which is not from 1970 to 9999"),
        ({"week": ""}, TaskValueError, "week has '', which is none of"),
        ({"hour": 9.5}, TaskTypeError, "hour must be a whole number or a text like '*/5': 9.5"),
        ({"hour": True}, TaskTypeError, "hour must be a whole number or a text"),
        ({}, TaskTypeError, "cron must be a text of five or six fields, unless fields are named"),
        ({"expression": "0 9 * * *", "hour": 9}, TaskTypeError, "cron stands beside hour: give"),
        ({"expression": "hour=9," * 200}, TaskValueError, "cron is longer than 1,000 characters"),
        ({"hour": 9, "jitter": 86_400}, TaskValueError, "jitter must be shorter than the interval"),
        ({"hour": 9, "tz": "Mars"}, TaskValueError, "tz is no known time zone"),
    ],
)
def test_what_makes_no_schedule_is_refused_with_field_and_value(fields, error, sentence):
    with pytest.raises(error) as caught:
        Cron(**fields)
    assert str(caught.value).startswith(sentence)


def test_fields_need_no_cronsim(monkeypatch):
    monkeypatch.setitem(sys.modules, "cronsim", None)

    assert Cron(hour=9, tz="UTC").next_after(None, NOW) == utc(2026, 3, 11, 9)
    assert parse("every weekday at 18:30 UTC").next_after(None, NOW) == utc(2026, 3, 10, 18, 30)
