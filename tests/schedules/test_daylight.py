"""Clocks put forward and back: what fires, and when."""

import random
import sys
from datetime import datetime, timedelta, timezone
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from django_tasks.schedules import Cron, Every, Schedule, parse
from django_tasks.schedules.wall_clock import FOLDS, GAPS
from tests.schedules import daylight
from tests.schedules.clocks import changes

UTC = timezone.utc

SAMPLE = 200


def test_a_sample_of_changes_fires_as_the_clocks_show():
    seed = random.randrange(1 << 30)
    sys.stdout.write(f"python -m tests.schedules.daylight --sample {SAMPLE} --seed {seed}\n")

    seen = daylight.look_at(daylight.sample(SAMPLE, seed), daylight.policies)

    assert seen.changes == SAMPLE
    assert seen.fires > 10 * SAMPLE
    assert seen.wrong == ()


def test_an_error_by_one_hour_would_be_found(monkeypatch):
    (change,) = daylight.sample(1, 7)
    right = daylight.fires

    def wrong(*args):
        return [fire + timedelta(hours=1) for fire in right(*args)]

    monkeypatch.setattr(daylight, "fires", wrong)

    assert len(daylight.look_at([change]).wrong) > daylight.look_at([change]).schedules / 2


def fire_after(schedule: Schedule, now: datetime) -> datetime:
    """The next fire, which there must be."""
    fire = schedule.next_after(None, now)
    assert fire is not None
    return fire


def local_fires(schedule, zone, day, days=1):
    """The fires of local days, as the local clock shows them, with the offset in hours."""
    start = datetime(*day)
    now = start.replace(tzinfo=ZoneInfo(zone)) - timedelta.resolution
    end = start + timedelta(days=days)
    found: list[str] = []
    while (now := schedule.next_after(None, now)) is not None:
        local = now.astimezone(ZoneInfo(zone))
        if local.replace(tzinfo=None) >= end:
            return found
        found.append(f"{local:%H:%M}{local.utcoffset() / timedelta(hours=1):+g}")
    return found


# The table of docs/reference/schedules.rst.

NEW_YORK = "America/New_York"  # gap 2026-03-08 2:00 to 3:00, fold 2026-11-01 1:00 to 2:00
BERLIN = "Europe/Berlin"  # gap 2026-03-29 2:00 to 3:00, fold 2026-10-25 2:00 to 3:00

TABLE = [
    (NEW_YORK, (2026, 3, 8), "30 2 * * *", {"gap": "skip"}, []),
    (NEW_YORK, (2026, 3, 8), "30 2 * * *", {"gap": "next"}, ["03:00-4"]),
    (NEW_YORK, (2026, 3, 8), "30 2 * * *", {"gap": "shift"}, ["03:30-4"]),
    (NEW_YORK, (2026, 3, 8), "30 2 * * *", {}, ["03:00-4"]),
    (NEW_YORK, (2026, 3, 8), "30 1 * * *", {}, ["01:30-5"]),
    (NEW_YORK, (2026, 3, 8), "0 3 * * *", {}, ["03:00-4"]),
    (NEW_YORK, (2026, 11, 1), "30 1 * * *", {"fold": "first"}, ["01:30-4"]),
    (NEW_YORK, (2026, 11, 1), "30 1 * * *", {"fold": "second"}, ["01:30-5"]),
    (NEW_YORK, (2026, 11, 1), "30 1 * * *", {"fold": "both"}, ["01:30-4", "01:30-5"]),
    (NEW_YORK, (2026, 11, 1), "30 1 * * *", {}, ["01:30-4"]),
    (NEW_YORK, (2026, 11, 1), "0 2 * * *", {"fold": "both"}, ["02:00-5"]),
    (BERLIN, (2026, 3, 29), "30 2 * * *", {"gap": "skip"}, []),
    (BERLIN, (2026, 3, 29), "30 2 * * *", {"gap": "next"}, ["03:00+2"]),
    (BERLIN, (2026, 3, 29), "30 2 * * *", {"gap": "shift"}, ["03:30+2"]),
    (
        BERLIN,
        (2026, 3, 29),
        "*/30 1-3 * * *",
        {"gap": "skip"},
        ["01:00+1", "01:30+1", "03:00+2", "03:30+2"],
    ),
    (
        BERLIN,
        (2026, 3, 29),
        "*/30 1-3 * * *",
        {"gap": "shift"},
        ["01:00+1", "01:30+1", "03:00+2", "03:30+2"],
    ),
    (BERLIN, (2026, 3, 29), "15,45 2-3 * * *", {"gap": "next"}, ["03:00+2", "03:15+2", "03:45+2"]),
    (BERLIN, (2026, 3, 29), "10 2,3 * * *", {"gap": "shift"}, ["03:10+2"]),
    (BERLIN, (2026, 3, 29), "10 2 * * *", {"gap": "shift"}, ["03:10+2"]),
    (BERLIN, (2026, 10, 25), "30 2 * * *", {"fold": "first"}, ["02:30+2"]),
    (BERLIN, (2026, 10, 25), "30 2 * * *", {"fold": "second"}, ["02:30+1"]),
    (BERLIN, (2026, 10, 25), "30 2 * * *", {"fold": "both"}, ["02:30+2", "02:30+1"]),
    (BERLIN, (2026, 10, 25), "0,30 2 * * *", {"fold": "second"}, ["02:00+1", "02:30+1"]),
    (
        BERLIN,
        (2026, 10, 25),
        "0,30 2 * * *",
        {"fold": "both"},
        ["02:00+2", "02:30+2", "02:00+1", "02:30+1"],
    ),
]


@pytest.mark.parametrize(("zone", "day", "expression", "options", "expected"), TABLE)
def test_worked_examples_of_2026(zone, day, expression, options, expected):
    assert local_fires(Cron(expression, zone, **options), zone, day) == expected


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        (NEW_YORK, (2026, 3, 8), 23),
        (NEW_YORK, (2026, 11, 1), 25),
        (BERLIN, (2026, 3, 29), 23),
        (BERLIN, (2026, 10, 25), 25),
        (BERLIN, (2026, 6, 1), 24),
    ],
)
def test_an_hour_field_with_a_star_means_an_interval(zone, day, hours):
    assert len(local_fires(Cron("0 * * * *", zone), zone, day)) == hours
    assert len(local_fires(Cron("*/15 * * * *", zone), zone, day)) == 4 * hours
    assert len(local_fires(Cron("0 */10 * * * *", zone), zone, day)) == 6 * hours


@pytest.mark.parametrize("zone", [NEW_YORK, BERLIN])
def test_a_time_of_day_fires_once_each_day_of_a_year_by_default(zone):
    for schedule in (Cron("30 2 * * *", zone), Every(days=1, at="01:30", tz=zone)):
        assert len(local_fires(schedule, zone, (2026, 1, 1), days=365)) == 365


# Zones with clocks of their own


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("skip", [(29, 12), (31, 12)]),
        ("next", [(29, 12), (31, 0), (31, 12)]),
        ("shift", [(29, 12), (31, 12)]),
    ],
)
def test_apia_had_no_30th_of_december(gap, expected):
    """Clocks went from the end of the 29th to the 31st; a shifted fire comes with the 31st's."""
    schedule = Cron("0 12 * * *", "Pacific/Apia", gap=gap)
    found, now = [], datetime(2011, 12, 29, tzinfo=ZoneInfo("Pacific/Apia"))
    for _ in expected:
        now = fire_after(schedule, now)
        local = now.astimezone(ZoneInfo("Pacific/Apia"))
        found.append((local.day, local.hour))

    assert found == expected


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("skip", ["Fri 23", "Fri 06", "Fri 13"]),
        ("next", ["Fri 23", "Sat 31", "Fri 06"]),
        ("shift", ["Fri 23", "Sat 31", "Sat 07"]),
    ],
)
def test_a_week_that_counts_from_its_last_run_across_the_missing_day(gap, expected):
    """A shifted run is one of a Saturday, as any other: nothing tells it from that."""
    where = ZoneInfo("Pacific/Apia")
    schedule, found = parse(f"every 1 week at 10:00 Pacific/Apia gap {gap}"), []
    last = datetime(2011, 12, 16, 10, tzinfo=where)
    for _ in expected:
        fire = schedule.next_after(last, last)
        assert fire is not None
        found.append(fire.astimezone(where).strftime("%a %d"))
        last = fire
    assert found == expected


def test_a_fire_shifted_by_a_day_comes_even_if_nothing_else_does():
    schedule = Cron("0 12 30 12 *", "Pacific/Apia", gap="shift")

    assert schedule.next_after(None, datetime(2011, 12, 30, tzinfo=UTC)) == datetime(
        2011, 12, 30, 22, tzinfo=UTC
    )
    assert schedule.next_after(None, datetime(2011, 12, 30, 21, 59, tzinfo=UTC)) == datetime(
        2011, 12, 30, 22, tzinfo=UTC
    )


def test_a_fire_every_second_of_the_missing_day_is_passed_quickly():
    schedule = Cron("* * * * * *", "Pacific/Apia")
    last = datetime(2011, 12, 30, 9, 59, 59, tzinfo=UTC)

    assert schedule.next_after(None, last) == last + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("day", "expression", "options", "expected"),
    [
        ((2026, 10, 4), "15 2 * * *", {"gap": "shift"}, ["02:45+11"]),
        ((2026, 10, 4), "15 2 * * *", {"gap": "next"}, ["02:30+11"]),
        ((2026, 10, 4), "15 2 * * *", {"gap": "skip"}, []),
        ((2026, 4, 5), "45 1 * * *", {"fold": "both"}, ["01:45+11", "01:45+10.5"]),
        ((2026, 4, 5), "15 1 * * *", {"fold": "both"}, ["01:15+11"]),
    ],
)
def test_clocks_of_lord_howe_are_changed_by_half_an_hour(day, expression, options, expected):
    zone = "Australia/Lord_Howe"

    assert local_fires(Cron(expression, zone, **options), zone, day) == expected


def test_clocks_of_casablanca_go_back_before_ramadan_and_forward_after():
    zone = "Africa/Casablanca"
    (back, forward) = (
        change.instant.astimezone(ZoneInfo(zone))
        for change in changes(zone)
        if change.instant.year == 2025
    )
    for change in (back, forward):
        day = (change.year, change.month, change.day)
        assert len(local_fires(Cron("30 2 * * *", zone), zone, day)) == 1
    assert local_fires(Cron("30 2 * * *", zone), zone, (back.year, back.month, back.day)) == [
        "02:30+1"
    ]
    day = (forward.year, forward.month, forward.day)
    assert local_fires(Cron("30 2 * * *", zone), zone, day) == ["03:00+1"]


# On the second of a change


@pytest.mark.parametrize(("gap", "fold"), list(product(GAPS, FOLDS)))
@pytest.mark.parametrize("day", [(2026, 3, 29), (2026, 10, 25)])
def test_every_second_there_is_one_fire_at_most_and_the_next_is_found_from_anywhere(gap, fold, day):
    """Around one o'clock UTC, from moments between the fires."""
    schedule = Cron("* * * * * *", BERLIN, gap=gap, fold=fold)
    change = datetime(*day).replace(hour=1, tzinfo=UTC)
    now = change - timedelta(seconds=5.5)
    found: list[datetime] = []
    for _ in range(10):
        fire = fire_after(schedule, now)
        found.append(fire)
        now = fire + timedelta(microseconds=1)

    assert found == sorted(set(found))
    assert all(fire.microsecond == 0 for fire in found)
    if day[1] == 3 or fold == "both":
        assert found[-1] - found[0] == timedelta(seconds=9)
