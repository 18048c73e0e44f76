"""Columns of local times: the hour that comes twice in autumn starts nothing before its time."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, connections

from django_tasks import api
from django_tasks.models import Task
from django_tasks.store import control, search
from django_tasks.store.claim import Claimer, claim
from django_tasks.store.debounce import debounce
from django_tasks.store.dialects import dialect_of
from django_tasks.store.finish import Ended, finish
from django_tasks.store.upsert import upsert, upsert_one
from django_tasks.values.conflicts import DebounceTerms, OnConflict
from django_tasks.values.outcomes import Again, Outcome, Reschedule, Retry
from tests.factories import CODE, UTC, a_claim, a_lane, a_new, a_row, in_utc, the_row
from tests.vendor import POSTGRESQL, VENDOR, only_on

pytestmark = pytest.mark.django_db

# Clocks in Berlin are set back from three to two at one o'clock UTC.
FIRST = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
SECOND = FIRST + timedelta(hours=1)
BEHIND = datetime(2026, 10, 25, 2, tzinfo=UTC)
THE_TASK = search.key(CODE, "1")


def test_a_moment_that_a_driver_gives_in_another_zone_is_told_in_utc() -> None:
    moment = FIRST.astimezone(ZoneInfo("Europe/Berlin"))
    told = dialect_of("default").from_column(moment)
    assert told == FIRST
    assert told.tzinfo is UTC


@pytest.fixture(params=["without USE_TZ", "with TIME_ZONE in DATABASES"])
def berlin(request: Any, settings: Any, monkeypatch: Any) -> Iterator[None]:
    """A database whose columns hold local times of Berlin."""
    if request.param == "without USE_TZ":
        settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"
        yield
        return
    settings.USE_TZ = True
    monkeypatch.setitem(connection.settings_dict, "TIME_ZONE", "Europe/Berlin")
    _forget_time_zone()
    yield
    monkeypatch.undo()
    _forget_time_zone()


def _forget_time_zone() -> None:
    for name in ("timezone", "timezone_name"):
        vars(connections["default"]).pop(name, None)
    connection.ensure_timezone()


def claimed(now: datetime) -> list[datetime]:
    """For when the tasks are that a claim takes at ``now``."""
    return [task.when for task in claim(Claimer(7), a_lane(), now, 9, using="default")]


def add_one(due: datetime) -> Any:
    return upsert_one(a_new(when=due), OnConflict.REPLACE, FIRST, using="default")


def keep_one(due: datetime) -> Any:
    return upsert_one(a_new(when=due), OnConflict.KEEP, FIRST, using="default")


def add_many(due: datetime) -> None:
    upsert([a_new(str(n), when=due) for n in range(9)], OnConflict.REPLACE, FIRST, using="default")


def add_earliest(due: datetime) -> None:
    a_row(when=BEHIND + timedelta(hours=1))
    upsert([a_new(when=due)], OnConflict.EARLIEST, FIRST, using="default")


def debounced(due: datetime) -> None:
    terms = DebounceTerms(due - FIRST, None)
    debounce(a_new(), terms, lambda waiting: waiting, FIRST, using="default")


def reschedule(due: datetime) -> None:
    a_row()
    control.reschedule(THE_TASK, due, FIRST, using="default")


def decide(due: datetime) -> None:
    a_row()
    control.decide(THE_TASK, lambda there: ({"schedule": "every 1h"}, due), FIRST, using="default")


def run_now(due: datetime) -> None:
    a_row()
    control.run_now(THE_TASK, due, using="default")


def ends_with(outcome: Callable[[datetime], Outcome]) -> Callable[[datetime], None]:
    def end(due: datetime) -> None:
        finish([Ended(a_claim(when=FIRST), outcome(due))], FIRST, using="default")

    return end


WAYS = {
    "add": add_one,
    "add, keep": keep_one,
    "add, many": add_many,
    "add, earliest": add_earliest,
    "debounce": debounced,
    "reschedule": reschedule,
    "decide": decide,
    "run now": run_now,
    "next time": ends_with(Reschedule),
    "retry": ends_with(lambda due: Retry(due, "oh")),
    "again": ends_with(Again),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_due_in_the_second_of_two_equal_hours_waits_for_it(berlin: None, way: str) -> None:
    WAYS[way](SECOND)

    before = [claimed(now) for now in (FIRST, FIRST + timedelta(minutes=29))]
    at_last = claimed(BEHIND)

    assert before == [[], []]
    assert at_last
    assert all(SECOND <= when <= BEHIND for when in at_last)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_due_in_the_first_one_is_due_then(berlin: None, settings: Any, way: str) -> None:
    WAYS[way](FIRST)

    # PostgreSQL takes the first of two equal local times for the second when it is told one.
    told = SECOND if VENDOR == POSTGRESQL and not settings.USE_TZ else FIRST
    assert set(claimed(FIRST)) == {told}


def test_an_add_returns_the_time_that_is_stored(berlin: None) -> None:
    for stored, _ in (add_one(SECOND), keep_one(SECOND)):
        assert in_utc(stored.when) == in_utc(the_row().when)


def test_tasks_are_found_by_the_time_that_they_were_given(berlin: None) -> None:
    add_one(SECOND)
    upsert([a_new("2", when=FIRST)], OnConflict.REPLACE, FIRST, using="default")

    assert [task.biz_num for task in api.get_tasks_by_code(CODE, when=SECOND)] == ["1"]


def test_a_schedules_time_is_moved_with_it(berlin: None) -> None:
    ends_with(lambda due: Reschedule(due, scheduled_time=due))(SECOND)

    (task,) = claim(Claimer(7), a_lane(), BEHIND, 9, using="default")

    assert task.scheduled_time == task.when


def test_columns_that_know_utc_have_no_hour_twice(settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = True, "Europe/Berlin"
    add_one(SECOND)

    assert claimed(SECOND) == [SECOND]


@only_on(POSTGRESQL, because="the others keep local times then")
def test_postgresql_knows_utc_whatever_time_zone_its_connection_has(berlin: None) -> None:
    if connection.timezone is None:
        assert dialect_of("default").storable(SECOND) == BEHIND
        return
    add_one(SECOND)

    assert claimed(SECOND) == [SECOND]
    assert Task.objects.get().when.utcoffset() == timedelta(hours=1)
