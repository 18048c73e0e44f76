"""Rows that were written under other rules of their zone than today's."""

import logging
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from pathlib import Path

import pytest

from django_tasks.handlers.recurrence import by_todays_rules
from django_tasks.models import Task
from django_tasks.schedules import arguments, parse
from django_tasks.timezones import aware
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.outcomes import Again, Reschedule
from django_tasks.values.status import Status
from django_tasks.worker import schedule_rows
from tests.factories import a_claim_of, table
from tests.worker.conftest import Register
from tests.worker.parts import added, config, row, stored
from tests.worker.test_schedules import Runs, nothing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

ZONES = files("tzdata") / "zoneinfo"
BERLIN = "Europe/Berlin"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Rules = Callable[[int], None]


def forget_zones() -> None:
    zoneinfo.ZoneInfo.clear_cache()
    arguments.zone.cache_clear()


@pytest.fixture
def rules(tmp_path: Path) -> Iterator[Rules]:
    """Have a release of the tz database in which Berlin is so many hours later than it is."""

    def changed(hours: int) -> None:
        offset = datetime.now(zoneinfo.ZoneInfo(BERLIN)).utcoffset()
        assert offset is not None
        east = int(offset / HOUR) - hours
        other = tmp_path / BERLIN
        other.parent.mkdir()
        other.write_bytes((ZONES / "Etc" / (f"GMT-{east}" if east else "GMT")).read_bytes())
        zoneinfo.reset_tzpath(to=[str(tmp_path)])
        forget_zones()

    yield changed
    zoneinfo.reset_tzpath()
    forget_zones()


def minutes_ago(minutes: int) -> datetime:
    now = datetime.now(timezone.utc).replace(second=0, microsecond=0)
    return now - timedelta(minutes=minutes)


def daily(moment: datetime) -> str:
    """Every day at the time of day that it is at a moment in Berlin."""
    return f"every 1 day at {moment.astimezone(zoneinfo.ZoneInfo(BERLIN)):%H:%M} {BERLIN}"


def planned(due: datetime, schedule: str) -> None:
    """A row whose time its schedule has chosen."""
    added(when=due, schedule=schedule)
    table().update(scheduled_time=None)


def test_a_time_that_has_not_come_by_the_rules_of_today_is_waited_for(
    register: Register, rules: Rules, caplog: pytest.LogCaptureFixture
) -> None:
    due = minutes_ago(2)
    planned(due, daily(due))
    rules(+1)
    runs = Runs(register, nothing)
    with caplog.at_level(logging.WARNING, "django_tasks"):
        assert runs.run() == Again(due + HOUR, scheduled_time=due + HOUR)
    assert [record.event for record in caplog.records] == ["zone_changed"]  # type: ignore[attr-defined]
    assert runs.times == []
    task = stored()
    assert aware("when", task.when) == due + HOUR
    assert (task.status, task.attempts, task.rescues, task.runs) == (Status.PENDING, 0, 0, 0)


def test_a_time_of_day_comes_once_though_its_row_is_late(register: Register, rules: Rules) -> None:
    due = minutes_ago(90)
    planned(due, daily(due))
    rules(+1)
    runs = Runs(register, nothing)
    assert runs.run() == Reschedule(due + HOUR + DAY)
    assert runs.times == [due + HOUR]


def test_where_it_should_have_come_before_it_comes_at_once_and_once(
    register: Register, rules: Rules
) -> None:
    due = minutes_ago(2)
    planned(due, daily(due))
    rules(-1)
    runs = Runs(register, nothing)
    assert runs.run() == Reschedule(due - HOUR + DAY)
    assert runs.times == [due]


@pytest.mark.parametrize(
    "schedule", ["every 2 weeks at {:%H:%M} Europe/Berlin", "cron {:%M %H} * * * Europe/Berlin"]
)
def test_each_schedule_that_goes_by_a_clock_does_so(
    register: Register, rules: Rules, schedule: str
) -> None:
    due = minutes_ago(2)
    text = schedule.format(due.astimezone(zoneinfo.ZoneInfo(BERLIN)))
    planned(due, text)
    rules(+1)
    assert Runs(register, nothing).run() == Again(due + HOUR, scheduled_time=due + HOUR)


@pytest.mark.parametrize("hour", range(24))
@pytest.mark.parametrize("days", ["2 weeks", "10 days", "1 month"])
def test_at_no_time_of_the_day_is_one_left_out(hour: int, days: str, rules: Rules) -> None:
    """Near midnight its day is another one, too."""
    zone = zoneinfo.ZoneInfo(BERLIN)
    meant = datetime.now(zone).replace(hour=hour, minute=30, second=0, microsecond=0)
    meant = meant.astimezone(timezone.utc)
    text = f"every {days} at {meant.astimezone(zone):%H:%M} {BERLIN}"
    if days == "1 month":
        text = f"every 1 month on day {meant.astimezone(zone).day} at {hour}:30 {BERLIN}"
    waiting = a_claim_of(1, meant)._replace(when=meant, schedule=text)
    assert by_todays_rules(waiting, parse(text)) is None
    rules(+1)
    assert by_todays_rules(waiting, parse(text)) == meant + HOUR


def test_a_time_that_somebody_has_chosen_stays(register: Register, rules: Rules) -> None:
    due = minutes_ago(2)
    added(when=due, schedule=daily(due))
    rules(+1)
    runs = Runs(register, nothing)
    assert runs.run() == Reschedule(due + HOUR)
    assert runs.times == [due]


def test_the_row_of_a_handler_is_asked_again_when_a_worker_starts(
    register: Register, rules: Rules
) -> None:
    soon = minutes_ago(-180)
    register(nothing, schedule=daily(soon))
    now = datetime.now(timezone.utc)
    schedule_rows.keep(now, config())
    before = row(SCHEDULE_NUM)
    rules(-1)
    schedule_rows.keep(now, config())
    after = row(SCHEDULE_NUM)
    assert before is not None
    assert after is not None
    assert aware("when", before.when) == soon
    assert (aware("when", after.when), after.version) == (soon - HOUR, before.version + 1)
    schedule_rows.keep(now, config())
    assert row(SCHEDULE_NUM) == after
    assert Task.objects.get().version == after.version
