"""Triggers of APScheduler that come over fire as APScheduler fires them."""

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest

from django_tasks.importers.apscheduler import schedule_of
from django_tasks.importers.found import CannotCome
from django_tasks.schedules import parse
from tests.importers.stores import need

UTC = timezone.utc
NOW = datetime(2030, 1, 1, 12, 30, 15, tzinfo=UTC)

CRONS: list[dict[str, Any]] = [
    {"second": "*/20"},
    {"minute": "5/10"},
    {"minute": "1-50/7", "second": 30},
    {"hour": "*/5"},
    {"hour": 9},
    {"hour": "8-10,14", "minute": "0,30"},
    {"day": "*/3"},
    {"day": "1,15"},
    {"day": "31"},
    {"day": "last"},
    {"day": "last", "hour": "6-8"},
    {"day": "3rd fri"},
    {"day": "1st mon,last sun", "hour": 9},
    {"day": "5th sun"},
    {"month": "*/2"},
    {"month": "jan-mar,jul"},
    {"month": 2, "day": 29},
    {"day_of_week": 0},
    {"day_of_week": "0-4", "hour": 9},
    {"day_of_week": "*/2"},
    {"day_of_week": "mon-fri,sun", "hour": 9, "minute": 5},
    {"day_of_week": "6"},
    {"day": "1-7", "day_of_week": "mon"},
    {"day": "last", "day_of_week": "fri"},
    {"day": "*/2", "day_of_week": "tue,thu", "hour": 3},
    {"hour": 9, "start_date": "2030-02-03", "end_date": "2030-02-09 23:00:00"},
    {"year": "2031-2033", "month": 5},
    {"week": "*/2", "day_of_week": "tue"},
    {"day": "1,last"},
]


@pytest.mark.parametrize("fields", CRONS, ids=str)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_a_cron_trigger_fires_as_it_did(fields: dict[str, Any], zone: str) -> None:
    need("apscheduler")
    from apscheduler.triggers.cron import CronTrigger

    assert_same(CronTrigger(timezone=zone, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"minutes": 90},
        {"days": 3, "start_date": "2029-06-01 10:00:00"},
        {"hours": 5, "start_date": "2030-03-01", "end_date": "2030-03-09"},
        {"weeks": 2, "seconds": 1, "start_date": "2031-01-01"},
    ],
    ids=str,
)
def test_an_interval_trigger_fires_as_it_did(fields: dict[str, Any]) -> None:
    need("apscheduler")
    from apscheduler.triggers.interval import IntervalTrigger

    assert_same(IntervalTrigger(timezone="Asia/Shanghai", **fields))


def assert_same(trigger: Any) -> None:
    schedule = schedule_of(trigger)
    assert parse(str(schedule)) == schedule
    theirs, ours = [NOW], [NOW]
    for _ in range(60):
        fire = trigger.get_next_fire_time(None, theirs[-1] + timedelta(microseconds=1))
        found = schedule.next_after(None, ours[-1])
        if fire is None or found is None:
            assert fire is found is None
            break
        theirs.append(fire)
        ours.append(found)
    assert ours == theirs
    assert all(one < other for one, other in pairwise(ours))


def test_jitter_comes_along() -> None:
    need("apscheduler")
    from apscheduler.triggers.cron import CronTrigger

    schedule = schedule_of(CronTrigger(hour=3, timezone="UTC", jitter=90))
    assert str(schedule) == "cron hour=3 minute=0 UTC jitter 1m30s"


def test_other_triggers_cannot_come_over() -> None:
    need("apscheduler")
    from apscheduler.triggers.combining import OrTrigger
    from apscheduler.triggers.interval import IntervalTrigger

    class Own(IntervalTrigger):  # type: ignore[misc, unused-ignore]
        pass

    for trigger, reason in ((OrTrigger([]), "needs at least one"), (Own(hours=1), "one of AP")):
        with pytest.raises(CannotCome, match=reason):
            schedule_of(trigger)


def test_a_trigger_in_a_zone_without_a_name_cannot_come_over() -> None:
    need("apscheduler")
    from apscheduler.triggers.cron import CronTrigger

    offset = timezone(timedelta(hours=5))
    with pytest.raises(CannotCome, match="time zone"):
        schedule_of(CronTrigger(hour=3, timezone=offset))
