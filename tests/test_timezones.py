"""Times that a column of local times can tell from all others."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from django_tasks.timezones import aware, for_django, storable

BERLIN = ZoneInfo("Europe/Berlin")


def utc(hour: int, minute: int = 0) -> datetime:
    """On the day on which clocks in Berlin are set back from three to two."""
    return datetime(2026, 10, 25, hour, minute, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("moment", "stored"),
    [
        (utc(0, 0), utc(0, 0)),
        (utc(0, 59), utc(0, 59)),
        (utc(1, 0), utc(2)),
        (utc(1, 30), utc(2)),
        (utc(1, 59), utc(2)),
        (utc(2), utc(2)),
        (utc(9), utc(9)),
    ],
)
def test_the_second_of_two_equal_hours_is_left_out(settings, moment, stored):
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"
    assert storable(moment, BERLIN) == stored
    assert aware("when", for_django(storable(moment, BERLIN))) == stored


def test_half_an_hour_as_well(settings):
    settings.USE_TZ, settings.TIME_ZONE = False, "Australia/Lord_Howe"
    zone = ZoneInfo("Australia/Lord_Howe")
    before = datetime(2026, 4, 4, 15, tzinfo=timezone.utc)
    for minutes in range(0, 60, 7):
        moment = before + timedelta(minutes=minutes)
        back = aware("when", for_django(storable(moment, zone)))
        assert back == moment or (moment < back <= moment + timedelta(minutes=30))


def test_where_no_hour_comes_twice_nothing_moves():
    assert storable(utc(1, 30), timezone.utc) == utc(1, 30)
    assert storable(utc(1, 30), ZoneInfo("Asia/Shanghai")) == utc(1, 30)
