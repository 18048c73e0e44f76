"""The cost of a schedule's text: one budget for its parts together."""

import time
from contextlib import suppress
from datetime import datetime, timezone

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from django_tasks.exceptions import TaskException, TaskValueError
from django_tasks.reads.recurring import coming
from django_tasks.schedules import AnyOf, Cron, parse
from django_tasks.schedules.accept import stored
from django_tasks.schedules.policies import as_plan

NOW = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
LONG_AGO = "from 2000-01-01T00:00:00Z"
START = "from 2020-01-01T00:00:00Z"
SIMILAR = f"every 2003s {START}; every 2011s {START}"
ZONES = ("Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca")
TWENTY_FIVE = "; ".join(f"cron {place} 9 * * * {ZONES[place % 4]}" for place in range(25))

# A fifth of a second on two slow cores that nobody else uses.
MOST_SECONDS = 0.5


def seconds_for(text: str) -> float:
    """The processor's time to read a text as a form does and to show ten of its times."""
    began = time.thread_time()
    with suppress(TaskException):
        coming(as_plan(text).schedule, None, NOW, 10)
    return time.thread_time() - began


@pytest.mark.parametrize(
    "text",
    [
        f"cron 0 9 * * * UTC {LONG_AGO} count 100000",
        f"any of ({TWENTY_FIVE}) {LONG_AGO} count 100000",
        f"any of ({TWENTY_FIVE}) jitter 1s",
        f"all of ({SIMILAR}) {START} count 100000",
        f"any of (all of ({SIMILAR}); cron 0 0 29 2 * UTC) jitter 1s",
        f"all of (every 20003s {START}; every 20011s {START})",
        f"every 1 month on day 31 at 0:00 UTC {LONG_AGO} count 100000",
        f"any of ({'; '.join(f'cron {n} 0 * * * UTC {LONG_AGO} count 100000' for n in range(8))})",
        f"any of ({'; '.join(f'every 1h {LONG_AGO} count {n}' for n in range(1, 20))}) jitter 1s",
        "any of (" + "; ".join(["all of (cron 0 * * * * UTC; cron 1 * * * * UTC)"] * 19) + ")",
        "all of (cron second=*/2 minute=* UTC; cron second=1-59/2 minute=* UTC)",
        "cron " + ",".join(str(number % 60) for number in range(300)) + " * * * * UTC",
        "cron year=*/1000 month=2 day=29 UTC jitter 1s",
    ],
)
def test_no_text_occupies_a_process(text: str) -> None:
    assert seconds_for(text) < MOST_SECONDS


def test_what_is_too_dear_is_refused_with_a_sentence() -> None:
    with pytest.raises(TaskValueError) as caught:
        parse(f"cron 0 9 * * * UTC {LONG_AGO} count 100000")
    assert caught.value.field == "schedule"
    assert caught.value.problem.startswith("takes more than 8,000 steps to work out: have fewer")
    nines = (Cron(f"{minute} 9 * * *", "UTC") for minute in range(30))
    with pytest.raises(TaskValueError, match="more than 8,000 steps"):
        AnyOf(*nines, start=NOW, count=5000)


def test_a_row_that_has_such_a_text_still_runs() -> None:
    text = "cron 0 9 * * * UTC from 2000-01-01T00:00:00+00:00 count 9900"
    schedule = stored(text)
    assert str(schedule) == text
    assert schedule.next_after(None, NOW) == datetime(2026, 11, 26, 9, tzinfo=timezone.utc)
    with pytest.raises(TaskValueError, match="more than 8,000 steps"):
        parse(text)  # a cache of what was read does not let it pass


@pytest.mark.parametrize(
    "text",
    [
        "cron 0 9 * * * UTC from 2026-01-01T00:00:00Z count 900",
        "cron 0 0 29 2 * UTC jitter 1h",
        f"any of ({TWENTY_FIVE}) jitter 1s",
        f"every 1s {LONG_AGO} count 1000000000",
        f"any of ({SIMILAR}; cron 0 0 1 1 * UTC) jitter 1s",
    ],
)
def test_what_people_write_is_not_refused(text: str) -> None:
    assert parse(text).next_after(None, NOW)


def test_a_part_that_fires_together_with_another_fires_once() -> None:
    hours = AnyOf(Cron(minute=0, tz="UTC"), Cron(minute="0,30", tz="UTC"), start=NOW, count=5)
    assert hours.next_after(None, NOW.replace(hour=13, minute=59)) == NOW.replace(hour=14)
    assert hours.next_after(None, NOW.replace(hour=14)) is None


FIELDS = (
    ("0", "*", "*/7", "0-59/13,5", "* *", "*/7 0"),
    ("2", "*", "*/5"),
    ("*", "29", "31", "*/30", "LW"),
    ("*", "2", "*/5"),
    ("*", "1#5", "5L", "*/6", "mon"),
    ZONES,
    ("", "gap skip", "gap shift fold both"),
)
SIMPLE = (
    *(f"every {number}s" for number in (1, 31, 2003, 2011, 20011, 100_000)),
    *(f"every {days} days at 2:30 {zone}" for days in (1, 7, 2003) for zone in ZONES),
    "every 1 month and 3 days at 9:00 UTC",
    *(
        f"cron week={week} day={day} day_of_week={weekday} hour=2 Europe/Berlin"
        for week in ("53", "*")
        for day in ("31", "5th mon", "*/30")
        for weekday in ("*", "fri")
    ),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A text of up to 1,000 characters: parts until it is full, and options that ask for much."""

    def part() -> str:
        words = SIMPLE if draw(st.booleans()) else ()
        text = draw(st.sampled_from(words)) if words else ""
        text = text or "cron " + " ".join(draw(st.sampled_from(field)) for field in FIELDS)
        start = draw(st.sampled_from(("", LONG_AGO, START, "from 1000-02-01T00:00:00Z")))
        count = draw(st.sampled_from(("", "count 100", "count 1500", "count 100000")))
        return f"{text} {start} {count if start else ''}"

    def group(parts: list[str], length: int) -> str:
        kind = draw(st.sampled_from(("any", "all")))
        most = max(1, length // len("; ".join(parts)))
        return f"{kind} of ({'; '.join(parts * most)})"

    parts = [part() for _ in range(draw(st.integers(1, 3)))]
    shape = draw(st.sampled_from(("plain", "flat", "nested")))
    text = parts[0] if shape == "plain" else group(parts, draw(st.sampled_from((1, 900))))
    if shape == "nested":
        text = f"any of ({text}; {part()})"
    whole = draw(st.sampled_from(("", f" {START} count 300", f" {LONG_AGO} count 100000")))
    text += whole if shape != "plain" else ""
    return text + draw(st.sampled_from(("", " jitter 1s")))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts())
def test_the_dearest_text_that_can_be_found_occupies_no_process(text: str) -> None:
    """A budget that misses a kind of work is shown by whichever text has much of it."""
    seconds = seconds_for(text)
    target(seconds)
    assert seconds < MOST_SECONDS, text
