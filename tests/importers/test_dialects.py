"""Crontabs of other tools, against the tools themselves or every minute of their rules."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

import pytest
from apscheduler.triggers.cron import CronTrigger
from celery.schedules import ParseException, crontab
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.importers.dialects import from_crontab
from django_tasks.schedules import Schedule

NOW = datetime(2026, 11, 25, 8, 17, 30, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)

Item = tuple[str, frozenset[int]]


def fires(schedule: Schedule, number: int = 4) -> list[datetime]:
    found: list[datetime] = []
    moment = NOW
    while len(found) < number and (fire := schedule.next_after(moment, moment)) is not None:
        found.append(fire)
        moment = fire
    return found


def minutes(matches: Callable[[datetime], bool], last: datetime) -> list[datetime]:
    """All minutes up to ``last`` that match."""
    moment = NOW.replace(second=0) + MINUTE
    found = []
    while moment <= last:
        if matches(moment):
            found.append(moment)
        moment += MINUTE
    return found


# Fields as text and as what they mean, made together


def item(draw: st.DrawFn, least: int, most: int, onward: bool, around: bool) -> Item:
    low, high = draw(st.integers(least, most)), draw(st.integers(least, most))
    step = draw(st.integers(1, most))
    kinds = ["all", "steps", "one", "range", "range in steps", *(["onward"] if onward else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "all":
        return "*", frozenset(range(least, most + 1))
    if kind == "steps":
        return f"*/{step}", frozenset(range(least, most + 1, step))
    if kind == "one" or low == high:
        return str(low), frozenset((low,))
    if kind == "onward":
        return f"{low}/{step}", frozenset(range(low, most + 1, step))
    if kind == "range" and low > high and around:
        return f"{low}-{high}", frozenset((*range(low, most + 1), *range(least, high + 1)))
    low, high = sorted((low, high))
    if kind == "range":
        return f"{low}-{high}", frozenset(range(low, high + 1))
    return f"{low}-{high}/{step}", frozenset(range(low, high + 1, step))


@st.composite
def lines(
    draw: st.DrawFn, weekdays: tuple[int, int], onward: bool = False, around: bool = False
) -> tuple[Item, ...]:
    """Minute, hour, day, month and day of the week."""
    ranges = ((0, 59), (0, 23), (1, 31), (1, 12), weekdays)
    return tuple(item(draw, least, most, onward, around) for least, most in ranges)


def agrees(schedule: Schedule, line: tuple[Item, ...], either: bool, weekdays: list[int]) -> None:
    """The schedule fires at the minutes that the sets mean, up to its fourth or a week ahead."""
    minute, hour, day, month, weekday = (values for _text, values in line)
    days = {weekdays[number] for number in weekday}

    def matches(at: datetime) -> bool:
        by_day, by_weekday = at.day in day, at.isoweekday() % 7 in days
        on_day = by_day or by_weekday if either else by_day and by_weekday
        return at.minute in minute and at.hour in hour and at.month in month and on_day

    last = NOW + timedelta(days=7)
    expected = minutes(matches, last)
    ours = fires(schedule)
    assert [fire for fire in ours if fire <= last] == expected[:4]


SUNDAY_IS_0 = [*range(7), 0]
SUNDAY_IS_1 = [-1, *range(7)]


def made(text: str, dialect: str) -> Schedule:
    """The schedule, where there is a date that it fires on."""
    try:
        return from_crontab(text, dialect, "UTC")
    except TaskValueError as error:
        assume("never fires" not in error.problem)
        raise


@settings(max_examples=400, deadline=None)
@given(lines((0, 6)))
def test_vixie_asks_for_both_days_where_one_begins_with_a_star(line: tuple[Item, ...]) -> None:
    texts = [text for text, _values in line]
    either = not (texts[2].startswith("*") or texts[4].startswith("*"))
    agrees(made(" ".join(texts), "vixie"), line, either, SUNDAY_IS_0)


@settings(max_examples=400, deadline=None)
@given(lines((0, 6), onward=True, around=True))
def test_croniter_is_content_with_one_day_unless_one_is_a_star(line: tuple[Item, ...]) -> None:
    texts = [text for text, _values in line]
    either = texts[2] != "*" and texts[4] != "*"
    assume(not either or len(line[4][1]) < 7)  # refused: it means one or the other there
    agrees(made(" ".join(texts), "croniter"), line, either, SUNDAY_IS_0)
    last = from_crontab(" ".join((*texts, "30")), "croniter", "UTC")
    assert all(fire.second == 30 for fire in fires(last))


@settings(max_examples=400, deadline=None)
@given(lines((1, 7), onward=True, around=True))
def test_quartz_counts_from_sunday_with_1(line: tuple[Item, ...]) -> None:
    text = "0 " + " ".join(text for text, _values in line)
    agrees(made(text, "quartz"), line, False, SUNDAY_IS_1)


@settings(max_examples=400, deadline=None)
@given(lines((1, 7), onward=True))
def test_spring_counts_from_monday_with_1_and_asks_for_all(line: tuple[Item, ...]) -> None:
    assume(not line[4][0].startswith("7-"))
    text = "0 " + " ".join(text for text, _values in line)
    agrees(made(text, "spring"), line, False, SUNDAY_IS_0)


@settings(max_examples=400, deadline=None)
@given(lines((0, 6), around=True))
def test_celery_is_asked_what_its_fields_mean(line: tuple[Item, ...]) -> None:
    minute, hour, day, month, weekday = (text for text, _values in line)
    try:
        theirs = crontab(minute, hour, day_of_week=weekday, day_of_month=day, month_of_year=month)
    except (ParseException, ValueError):
        assume(False)
    sets = (
        theirs.minute,
        theirs.hour,
        theirs.day_of_month,
        theirs.month_of_year,
        theirs.day_of_week,
    )
    meant = tuple(("", frozenset(values)) for values in sets)
    schedule = made(" ".join((minute, hour, day, month, weekday)), "celery")
    agrees(schedule, meant, False, SUNDAY_IS_0)


def theirs(trigger: Any) -> Iterator[datetime]:
    moment = NOW
    while (fire := trigger.get_next_fire_time(None, moment)) is not None:
        yield fire
        moment = fire + timedelta(microseconds=1)


@settings(max_examples=400, deadline=None)
@given(lines((0, 6), onward=True))
def test_apscheduler_is_asked_when_it_fires(line: tuple[Item, ...]) -> None:
    text = " ".join(text for text, _values in line)
    try:
        trigger = CronTrigger.from_crontab(text, timezone.utc)
    except ValueError:
        assume(False)
    assert fires(made(text, "apscheduler")) == list(islice(theirs(trigger), 4))


@pytest.mark.parametrize(
    ("dialect", "text", "printed"),
    [
        ("croniter", "0 9 * * 1 30", "cron day_of_week=mon hour=9 minute=0 second=30 UTC"),
        ("croniter", "0 9 */10 * mon", "cron 0 9 1,11,21,31 * 1 UTC"),
        ("croniter", "0 9 1 * */2", "cron 0 9 1 * 0,2,4,6 UTC"),
        ("croniter", "*/5 * 1 * 1 0", "cron 0 */5 * 1 * 1 UTC"),
        ("croniter", "0 9 L * ?", "cron day=last hour=9 minute=0 UTC"),
        ("croniter", "0 9 * * l5", "cron day=last fri hour=9 minute=0 UTC"),
        ("vixie", "0 9 */10 * mon", "cron day=*/10 day_of_week=mon hour=9 minute=0 UTC"),
        ("debian", "0 9 1 * 7", "cron 0 9 1 * 0 UTC"),
        ("quartz", "0 0 9 ? * MON-FRI", "cron day_of_week=mon,tue,wed,thu,fri hour=9 minute=0 UTC"),
        ("quartz", "0 0 9 ? * 6#3 2027", "cron year=2027 day=3rd fri hour=9 minute=0 UTC"),
        ("quartz", "0 0 9 ? * 6L", "cron day=last fri hour=9 minute=0 UTC"),
        ("spring", "0 0 9 * * */2", "cron day_of_week=sun,mon,wed,fri hour=9 minute=0 UTC"),
        ("spring", "0 0 9 * * sun-tue", "cron day_of_week=sun,mon,tue hour=9 minute=0 UTC"),
        ("spring", "0 0 9 1-7 * MON", "cron day=1,2,3,4,5,6,7 day_of_week=mon hour=9 minute=0 UTC"),
        ("apscheduler", "0 9 * * 0-4", "cron day_of_week=mon-fri hour=9 minute=0 UTC"),
        ("celery", "0 22-6/3 */31 */12 5", None),
    ],
)
def test_a_text_is_turned_into_ours(dialect: str, text: str, printed: str | None) -> None:
    there = str(from_crontab(text, dialect, "UTC"))
    assert there == (printed or "cron month=1 day=1 day_of_week=fri hour=1,4,22 minute=0 UTC")


@pytest.mark.parametrize(
    ("dialect", "text", "field"),
    [
        ("vixie", "5/10 9 * * *", "minute"),
        ("vixie", "0 9 L * *", "day"),
        ("vixie", "0 9 ? * *", "day"),
        ("vixie", "0 0 9 * * *", "cron"),
        ("vixie", "@daily", "cron"),
        ("croniter", "0 9 1 * 5#1", "day_of_week"),
        ("croniter", "0 9 1 * */1", "day_of_week"),
        ("quartz", "0 0 9 1 * 6#3", "day"),
        ("croniter", "0 9-9/2 * * *", "hour"),
        ("croniter", "R 9 * * *", "minute"),
        ("croniter", "0 9 * * * 0 2027", "cron"),
        ("celery", "0 9 * * 5/2", "day_of_week"),
        ("quartz", "0 0 9 15W * ?", "day"),
        ("quartz", "0 0 9 L-3 * ?", "day"),
        ("quartz", "0 0 9 ? * 0", "day_of_week"),
        ("spring", "0 0 22-6 * * *", "hour"),
        ("spring", "0 0 9 * 13 *", "month"),
        ("windows", "0 9 * * *", "dialect"),
        ("vixie", "1," * 600 + "1 9 * * *", "cron"),
    ],
)
def test_what_means_nothing_here_is_refused(dialect: str, text: str, field: str) -> None:
    with pytest.raises(TaskValueError) as caught:
        from_crontab(text, dialect, "UTC")
    assert caught.value.field == field


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TaskTypeError, match="cron must be a text"):
        from_crontab(9, "vixie")  # type: ignore[arg-type]
