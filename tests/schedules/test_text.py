"""Schedules as text: what is printed can be read, and so can what people write."""

import re
import sys
from datetime import datetime, timedelta, timezone
from os import environ
from pathlib import Path
from subprocess import run

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import AllOf, AnyOf, At, Cron, Every, parse
from django_tasks.schedules.budget import unlimited
from tests.schedules.strategies import possible, schedules

UTC = timezone.utc
YEAR = datetime(2026, 1, 1, tzinfo=UTC)
CHINA = timezone(timedelta(hours=8))


def as_a_row_is_read(text):
    """The schedule of a text whose parts may use up more than one budget together."""
    with unlimited():
        return parse(text)


@given(schedules)
def test_what_is_printed_is_read_as_the_same_value(schedule):
    again = as_a_row_is_read(str(schedule))

    assert again == schedule
    assert hash(again) == hash(schedule)
    assert str(again) == str(schedule)


@given(schedules)
def test_case_and_blanks_are_free(schedule):
    text = str(schedule)
    spaced = text.replace(" ", " \t ").replace("(", " ( ").replace(";", " ; ")
    for word in ("every", "cron", "any of", "all of", "from", "until", "jitter", "count", "fold"):
        spaced = spaced.replace(word.replace(" ", " \t "), word.replace(" ", "  ").title())
    if len(spaced) <= 1000:
        assert as_a_row_is_read(f"  {spaced}\n") == schedule


CANONICAL = {
    "every 30m": Every(minutes=30),
    "every 1h30m": Every(hours=1, minutes=30),
    "every 2w": Every(weeks=2),
    "every 1w1d": Every(days=8),
    "every 0.5s": Every(seconds=0.5),
    "every 1m0.000001s": Every(minutes=1, seconds=0.000001),
    "every 1 month on day 31 at 09:00 Asia/Shanghai": Every(
        months=1, day=31, at="09:00", tz="Asia/Shanghai"
    ),
    "every 2 months and 8 days at 09:00 UTC": Every(months=2, days=8, at="09:00", tz="UTC"),
    "every 1 year and 2 weeks at 00:00 UTC": Every(years=1, weeks=2, tz="UTC"),
    "every 2 years on day 1 at 00:00 UTC": Every(years=2, tz="UTC"),
    "every 1 day at 09:00:30 Europe/Berlin": Every(days=1, at="9:00:30", tz="Europe/Berlin"),
    "every 2 weeks at 02:30 Europe/Berlin gap shift fold both": Every(
        weeks=2, at="02:30", tz="Europe/Berlin", gap="shift", fold="both"
    ),
    "cron */5 9-18 * * 1-5 Asia/Shanghai": Cron("*/5 9-18 * * 1-5", tz="Asia/Shanghai"),
    "cron 0 9 * * * UTC": Cron("0 9 * * *", "UTC"),
    "cron 30 0 9 * * MON#1 Etc/GMT+5": Cron("30 0 9 * * mon#1", tz="Etc/GMT+5"),
    "cron 0 9 L * 5L EST gap skip": Cron("0 9 L * 5L", tz="EST", gap="skip"),
    "cron 0 * * * * Asia/Tokyo fold first": Cron("0 * * * *", "Asia/Tokyo", fold="first"),
    "cron day=last fri hour=9 minute=*/5 Europe/Berlin gap skip": Cron(
        day="last fri", hour=9, minute="*/5", tz="Europe/Berlin", gap="skip"
    ),
    "cron year=2027-2029 week=1-26 day_of_week=mon-fri hour=* minute=0 second=*/20 UTC": Cron(
        year="2027-2029", week="1-26", day_of_week="0-4", minute=0, second="*/20", tz="UTC"
    ),
    "cron day=1st mon,2nd tue,last hour=12 minute=0 UTC jitter 5m": Cron(
        day="1st mon, 2nd tue, last", hour=12, tz="UTC", jitter=300
    ),
    "at 2026-12-24T18:00:00+08:00": At(datetime(2026, 12, 24, 18, tzinfo=CHINA)),
    "any of (every 30m; cron 0 9 * * * UTC)": AnyOf(Every(minutes=30), Cron("0 9 * * *", "UTC")),
    "all of (cron 0 9 * * * UTC; cron day=last hour=9 minute=0 UTC) jitter 5s": AllOf(
        Cron("0 9 * * *", "UTC"), Cron(day="last", hour=9, tz="UTC"), jitter=5
    ),
    "any of (any of (every 1d; every 1w count 3 from 2026-01-01T00:00:00+00:00))": AnyOf(
        AnyOf(Every(days=1), Every(weeks=1, start=YEAR, count=3))
    ),
    "every 30m from 2026-01-01T00:00:00+00:00 until 2026-02-01T00:00:00+08:00 jitter 5s count 5": (
        Every(
            minutes=30,
            start=YEAR,
            end=datetime(2026, 2, 1, tzinfo=CHINA),
            jitter=5,
            count=5,
        )
    ),
}


@pytest.mark.parametrize(("text", "schedule"), CANONICAL.items())
def test_texts_are_what_a_person_would_write(text, schedule):
    assert parse(text) == schedule
    if "count 3 from" not in text:
        assert str(schedule) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("every 30 minutes", "every 30m"),
        ("EVERY 30 Min", "every 30m"),
        ("every hour", "every 1h"),
        ("every 1 hour and 30 minutes", "every 1h30m"),
        ("every 1h 30m", "every 1h30m"),
        ("every 90m", "every 1h30m"),
        ("every 1.5 hours", "every 1h30m"),
        ("every day", "every 1d"),
        ("every 7 days", "every 1w"),
        ("every 30m jitter 5", "every 30m jitter 5s"),
        ("every 1h jitter 1 minute 30 s", "every 1h jitter 1m30s"),
        ("every month utc", "every 1 month on day 1 at 00:00 UTC"),
        ("every 12 months at 9:00 UTC", "every 1 year on day 1 at 09:00 UTC"),
        ("every month on the last day at 9:00 in UTC", "every 1 month on day 31 at 09:00 UTC"),
        ("every 14 days at 09:00 UTC", "every 2 weeks at 09:00 UTC"),
        ("every day at 09:00:00 UTC gap Next", "every 1 day at 09:00 UTC"),
        ("every 1 day utc", "every 1 day at 00:00 UTC"),
        ("cron 0 9 * * mon-fri utc", "cron 0 9 * * MON-FRI UTC"),
        ("cron 0 9 * * * in Europe/Berlin", "cron 0 9 * * * Europe/Berlin"),
        ("at 2026-12-24 18:00+08:00", "at 2026-12-24T18:00:00+08:00"),
        ("at 2026-12-24T18:00+0800", "at 2026-12-24T18:00:00+08:00"),
        ("at 2026-12-24T10:00:00Z", "at 2026-12-24T10:00:00+00:00"),
        ("at 2026-12-24T10:00:00.5z", "at 2026-12-24T10:00:00.500000+00:00"),
        ("at 2026-12-24 18:00 Asia/Shanghai", "at 2026-12-24T18:00:00+08:00"),
        ("at 2026-12-24 in Asia/Shanghai", "at 2026-12-24T00:00:00+08:00"),
        ("every month 8 days utc", "every 1 month and 8 days at 00:00 UTC"),
        ("any of(every 30m;every 1h)", "any of (every 30m; every 1h)"),
        (
            "every 1h count 2 from 2026-01-01 Asia/Shanghai",
            "every 1h from 2026-01-01T00:00:00+08:00 count 2",
        ),
    ],
)
def test_reading_is_lenient_and_printing_is_not(text, canonical):
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is none that can be read; possible are 'every 30m'"),
        ("tomorrow", "is none that can be read; possible are"),
        ("30m", "is none that can be read"),
        ("every", "says 'every' without how often; possible are"),
        ("every blue moon", "says 'every' and then 'blue', which is neither a duration nor a day"),
        ("every wekday at 9:00", "says 'every' and then 'wekday'"),
        ("every at 8:00", "says 'every' without how often"),
        ("any of (every)", "says 'every' without how often"),
        ("every 3", "has a number without a unit, 3"),
        ("every 3 4 hours", "has two numbers, 3 and 4, without a unit between"),
        ("every 1h 2h", "says hours twice"),
        ("every 0m", "is impossible: every must be longer than nothing"),
        ("every 99999999999999999999w", "has a duration that is too long"),
        ("every day at 09:00 Mars/Olympus", "is impossible: tz is no known time zone"),
        ("every day at tea UTC", "is impossible: at must be a time of day, like '09:00', '9am'"),
        ("every day at 13pm UTC", "is impossible: at must be a time of day (hour must be in 1..12"),
        ("every 1.5 days at 09:00 UTC", "has 1.5 days, which must be a whole number"),
        ("every month on day 32 UTC", "is impossible: day must be a whole number from 1 to 31"),
        ("every month on day x UTC", "needs a whole number after 'day'"),
        ("every 30m at 09:00 UTC", "is impossible: every must be of whole days"),
        ("every 2 months and 8 days on day 3 UTC", "is impossible: day is one of a month"),
        ("every monday and", "has 'nothing' where a day of the week is expected"),
        ("every monday at 25:00", "is impossible: at must be a time of day (hour must be in 0..23"),
        ("every monday at 09:00:00.5", "has a fraction of a second, 09:00:00.500000, which no"),
        ("every friday gap jump", "is impossible: gap must be one of skip, next, shift"),
        ("every friday on Mars", "has 'on' where a time zone or the end is expected"),
        ("every friday Mars", "is impossible: tz is no known time zone"),
        ("every 2 weeks on monday at 9:00 UTC", "has 'on' where a time zone or the end is"),
        ("every day 9:00 UTC", "has '9:00' where a time zone or the end is expected"),
        ("every second monday UTC", "has 'monday' where a time zone or the end is expected"),
        ("every day at 9 and 17", "has 'and' where a time zone or the end is expected"),
        ("cron 0 9 * * MONDAY UTC", "has 'MONDAY' where a time zone or the end is expected"),
        (
            "cron 0 9 * * sat-sun UTC",
            "is impossible: cron is no cron expression (has 'SAT-SUN',",
        ),
        (
            "cron 0 22-6 * * * UTC",
            "is impossible: cron is no cron expression (has '22-6',",
        ),
        ("every 1M", "has '1M', and 'm' is a minute, 'mo' a month"),
        (
            "at 2026-03-29 02:30 Europe/Berlin",
            "has no time after 'at': clocks are put forward over",
        ),
        ("last weekday of the month", "is none that can be read; possible are"),
        ("last day at noon", "is none that can be read; possible are"),
        ("the day of the month", "is none that can be read; possible are"),
        ("sixth monday of the month", "is none that can be read; possible are"),
        ("@reboot", "is none that can be read; possible are 'every 30m'"),
        ("every 30m gap skip", "is impossible: every must be of whole days"),
        ("every 1h jitter", "needs a duration like 30s or 1h30m after 'jitter'"),
        ("every 1h jitter 1 month", "needs a duration like 30s"),
        ("every 1h jitter 1h", "is impossible: jitter must be shorter than the interval, 1h"),
        ("every 1h count two", "needs a whole number after 'count'"),
        ("every 1h count 2", "is impossible: count needs a start"),
        ("every 1h from 2026-01-01Z from 2026-01-01Z", "says 'from' twice"),
        ("every 1h from soon", "needs a time like 2026-12-24T18:00:00+08:00 after 'from'"),
        ("every 1h from 2026-01-01", "needs an offset or a time zone behind 2026-01-01"),
        ("every 1h until 2026-02-30Z", "has no time after 'until' (day "),
        ("every 1h from 2026-01-02Z until 2026-01-01Z", "is impossible: end is before start"),
        ("every 1h please", "is impossible: tz is no known time zone"),
        ("every 1h from 2026-01-01Z please", "has 'please' where it should end; possible are"),
        ("cron", "is impossible: cron is no cron expression (Wrong number of fields)"),
        ("cron hour=25", "is impossible: hour has '25', which is not from 0 to 23"),
        ("cron hour=9 hour=10", "is impossible: hour is there twice"),
        ("cron hours=9", "is impossible: cron has a field that is none of year, month, day, week"),
        ("cron 0 9 day=3", "is impossible: cron has a field that is none of year"),
        ("cron month=2 day=30", "is impossible: schedule is a schedule that never fires"),
        ("cron 0 0 30 2 *", "is impossible: cron is a schedule that never fires"),
        ("cron 0 9 * * * Asia/Shangai", "is impossible: tz is no known time zone"),
        ("cron 0 9 * * * gap jump", "is impossible: gap must be one of skip, next, shift"),
        ("at 2026-12-24T18:00:00", "needs an offset or a time zone behind"),
        ("at 2026-12-24T18:00:00Z fold both", "has a fold, which only times on a wall clock"),
        ("any of", "is none that can be read"),
        ("any of ()", "is none that can be read"),
        ("any of (every 1h", "has 'nothing' where ';' or ')' is expected"),
        ("any of (every 1h, every 2h)", "says 'every' and then '1h,'"),
        ("any of (every 1h jitter 5s)", "is impossible: jitter stands outside"),
        ("every 1h)", "has ')' where it should end"),
        ("any of (" * 6, "is nested more than 5 levels deep"),
        ("trigger <IntervalTrigger>", "is that of a trigger object, which only the code knows"),
        ("every 1h" + " " * 1000, "is 1,008 characters long, more than 1,000"),
        ("at 2026-12-24T18:00:00\u0665", "needs a time like"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(text, reason):
    with pytest.raises(TaskValueError) as caught:
        parse(text)
    assert caught.value.field == "schedule"
    assert caught.value.value == text
    assert caught.value.problem.startswith(reason)


@pytest.mark.parametrize("value", [None, 5, b"every 30m", timedelta(1), Every(hours=1)])
def test_only_texts_are_read(value):
    with pytest.raises(TaskTypeError, match="schedule must be a text"):
        parse(value)


WORDS = (
    *("every", "cron", "at", "any", "all", "of", "(", ")", ";", "trigger", "* * * * *", "*/5", "L"),
    *("from", "until", "jitter", "count", "gap", "fold", "skip", "both"),
    *("on", "day", "the", "last", "in", "and", "5", "31", "1h", "30m", "month", "09:00"),
    *("monday", "fri,", "weekday", "half", "hour", "first", "of", "@daily", "noon", "am", "pm"),
    *(
        "day=last",
        "hour=9,",
        "minute=*/5",
        "year=2027",
        "week=",
        "UTC",
        "Europe/Berlin",
        "2026-01-01",
        "2026-01-01T00:00Z",
    ),
)


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=12).map(" ".join))
def test_any_text_is_a_schedule_or_refused(text):
    schedule = possible(parse, text)

    assert schedule is None or parse(str(schedule)) == schedule


def written(place: str) -> list[str]:
    """The texts of schedules in a part of the documentation."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "schedules.rst").read_text(
        encoding="utf-8"
    )
    part = page.partition(f"\n{place}\n===")[2].partition("\n===")[0]
    return re.findall(r"``((?:every|cron|at|any of|all of) \S[^`]*)``", part, re.IGNORECASE)


def test_what_the_documentation_writes_can_be_read():
    as_text, clocks = written("As text"), written("When clocks are changed")

    assert len(as_text) > 20
    assert len(clocks) > 10
    for text in as_text + clocks:
        assert parse(str(parse(text))) == parse(text)


def test_the_documentation_says_what_is_printed():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "schedules.rst").read_text(
        encoding="utf-8"
    )
    table = page.partition("- read\n")[2].partition("\nA text has at most")[0]
    rows = re.findall(r"\* - ``(.+)``\n +- ``(.+)``", table)

    assert len(rows) > 15
    for text, printed in rows:
        assert str(parse(text)) == printed


# Plain English

ENGLISH = {
    "every half hour": Every(minutes=30),
    "every half an hour": Every(minutes=30),
    "every monday at 09:00": Cron(day_of_week="mon", hour=9, tz="Asia/Shanghai"),
    "every monday at 09:00 in Europe/Berlin": Cron(day_of_week=0, hour=9, tz="Europe/Berlin"),
    "Every Monday and Thursday at 9:00 UTC": Cron(day_of_week="mon,thu", hour=9, tz="UTC"),
    "every mon, wed and friday at 6:30 pm UTC": Cron(
        day_of_week="mon,wed,fri", hour=18, minute=30, tz="UTC"
    ),
    "every weekday at 18:30 Europe/Berlin": Cron(
        day_of_week="mon-fri", hour=18, minute=30, tz="Europe/Berlin"
    ),
    "every weekday and sunday at 12:00:30 UTC": Cron(
        day_of_week="mon-fri,sun", hour=12, minute=0, second=30, tz="UTC"
    ),
    "every sunday UTC gap skip": Cron(day_of_week="sun", tz="UTC", gap="skip"),
    "every day at 09:00": Every(days=1, at="09:00", tz="Asia/Shanghai"),
    "every day at 9am UTC": Every(days=1, at="09:00", tz="UTC"),
    "every day at 12 am UTC": Every(days=1, at="00:00", tz="UTC"),
    "every day at noon in UTC": Every(days=1, at="12:00", tz="UTC"),
    "every month": Every(months=1, day=1, tz="Asia/Shanghai"),
    "last day of the month at noon": Every(months=1, day=31, at="12:00", tz="Asia/Shanghai"),
    "the last day of every month at midnight UTC": Every(months=1, day=31, tz="UTC"),
    "first day of the month at 9:00 UTC": Every(months=1, day=1, at="09:00", tz="UTC"),
    "third day of the month UTC": Every(months=1, day=3, tz="UTC"),
    "last friday of the month at 17:00 UTC": Cron(day="last fri", hour=17, tz="UTC"),
    "1st mon of each month utc": Cron(day="1st mon", hour=0, tz="UTC"),
    "@hourly UTC": Cron(minute=0, tz="UTC"),
    "@daily": Every(days=1, at="00:00", tz="Asia/Shanghai"),
    "@midnight in UTC": Every(days=1, at="00:00", tz="UTC"),
    "@weekly UTC": Cron(day_of_week="sun", tz="UTC"),
    "@monthly UTC": Every(months=1, day=1, tz="UTC"),
    "@yearly UTC": Cron(month=1, tz="UTC"),
    "@annually UTC": Cron(month=1, day=1, hour=0, tz="UTC"),
    "@Daily UTC jitter 5m from 2026-01-01Z count 3": Every(
        days=1, at="00:00", tz="UTC", start=YEAR, jitter=300, count=3
    ),
    "any of (@daily; every friday at 5pm UTC)": AnyOf(
        Every(days=1, at="00:00", tz="Asia/Shanghai"), Cron(day_of_week="fri", hour=17, tz="UTC")
    ),
}


@pytest.mark.parametrize(("text", "schedule"), ENGLISH.items())
def test_plain_english_is_read_and_printed_so_that_it_reads_back(text, schedule, settings):
    settings.TIME_ZONE = "Asia/Shanghai"

    assert parse(text) == schedule
    assert parse(str(schedule)) == schedule


@pytest.mark.parametrize("name", ["@yearly", "@monthly", "@weekly", "@daily", "@hourly"])
def test_a_start_does_not_move_what_crontab_has_a_name_for(name):
    start = datetime(2026, 5, 10, 7, 30, tzinfo=UTC)
    started, usual = parse(f"{name} UTC from {start.isoformat()}"), parse(f"{name} UTC")

    assert started.next_after(None, start) == usual.next_after(None, start)


# The zone of what names none


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("cron 0 9 * * *", "cron 0 9 * * * {}"),
        ("cron hour=9", "cron hour=9 minute=0 {}"),
        ("every weekday at 18:30", "cron day_of_week=mon-fri hour=18 minute=30 {}"),
        ("every day at 09:00", "every 1 day at 09:00 {}"),
        ("every month", "every 1 month on day 1 at 00:00 {}"),
        ("@hourly", "cron hour=* minute=0 {}"),
    ],
)
def test_a_text_without_a_zone_is_of_the_projects_as_it_is_when_it_is_read(text, printed, settings):
    for name in ("Europe/Berlin", "UTC", "Asia/Tokyo"):
        settings.TIME_ZONE = name

        assert str(parse(text)) == printed.format(name)


def test_what_is_stored_keeps_its_zone_whatever_becomes_of_the_setting(settings):
    settings.TIME_ZONE = "Europe/Berlin"
    made = (Cron("0 9 * * *"), Cron(hour=9), Every(months=1), parse("every friday"))
    texts = [str(each) for each in made]

    settings.TIME_ZONE = "Asia/Tokyo"

    assert all(text.endswith(" Europe/Berlin") for text in texts)
    assert tuple(map(parse, texts)) == made


ALONE = """
import sys
from django_tasks.schedules import Cron, Every, parse
print(Cron(hour=9, tz="UTC"), parse("every day at 09:00 UTC"), "django.db" in sys.modules)
for make in (lambda: Cron(hour=9), lambda: Every(months=1), lambda: parse("@daily")):
    try:
        print(make())
    except ValueError as error:
        print(error)
"""


def test_without_settings_a_zone_must_be_named():
    environment = {name: value for name, value in environ.items() if not name.startswith("DJANGO")}
    done = run([sys.executable, "-c", ALONE], env=environment, capture_output=True, check=True)

    made, *refused = done.stdout.decode().splitlines()
    assert made == "cron hour=9 minute=0 UTC every 1 day at 09:00 UTC False"
    assert len(refused) == 3
    assert all("tz is missing, and there is no settings.TIME_ZONE" in line for line in refused)
