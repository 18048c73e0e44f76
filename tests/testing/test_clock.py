"""The one clock of the package, in the hands of a test."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import date, datetime, timedelta, timezone
from typing import Any

import freezegun
import pytest
import time_machine
from django.test import override_settings
from django.utils.timezone import now as django_now

from django_tasks.api import Task, add_task, add_tasks, find_tasks, get_task, run_task_now
from django_tasks.exceptions import TaskValueError
from django_tasks.store import clock
from django_tasks.store.clock import read_clock
from django_tasks.testing import (
    assert_task_added,
    captured_tasks,
    drain_tasks,
    freeze_tasks,
    run_due_tasks,
    travel,
)
from django_tasks.timezones import for_django
from tests.testing.conftest import Job

pytestmark = pytest.mark.django_db

NOON = datetime(2040, 5, 17, 12, tzinfo=timezone.utc)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Freeze = Callable[[datetime], AbstractContextManager[Any]]


@pytest.fixture(params=["freezegun", "time-machine"])
def frozen(request: pytest.FixtureRequest) -> Freeze:
    if request.param == "freezegun":
        return freezegun.freeze_time
    return lambda moment: time_machine.travel(moment, tick=False)


def is_now(moment: datetime) -> bool:
    return abs(moment - read_clock(using="default").utc) < timedelta(seconds=20)


def test_adds_schedules_and_rows_go_by_the_frozen_clock() -> None:
    with freeze_tasks(NOON):
        timer = add_task("job", "1", when=HOUR)
        repeated = add_task("job", "2", schedule="every 1h")
        debounced = add_task("job", "3", on_conflict="debounce", wait=60)
        add_tasks([Task(biz_code="job", biz_num="4", when=NOON)])
        assert run_task_now("job", "4")
    stored = get_task("job", "4")
    assert stored is not None
    assert timer.when == for_django(NOON + HOUR)
    assert repeated.when == for_django(NOON + HOUR)
    assert debounced.when == for_django(NOON + timedelta(minutes=1))
    assert timer.create_time == stored.update_time == for_django(NOON)


def test_it_is_the_same_for_every_database() -> None:
    with freeze_tasks(NOON), travel(HOUR):
        assert clock.now("default") == clock.now("another") == NOON + HOUR


def test_afterwards_the_clock_goes_on() -> None:
    with freeze_tasks(NOON):
        assert clock.now("default") == NOON
    assert is_now(clock.now("default"))


def test_an_exception_ends_it_as_well() -> None:
    with pytest.raises(ZeroDivisionError), freeze_tasks(NOON):
        _ = 1 / 0
    assert is_now(clock.now("default"))


def test_workers_and_locks_read_the_databases_clock_meanwhile() -> None:
    with freeze_tasks(NOON):
        assert is_now(read_clock(using="default").utc)


@pytest.mark.parametrize(
    ("at", "moment"),
    [
        (NOON, NOON),
        (NOON.astimezone(timezone(HOUR)), NOON),
        ("2040-05-17T12:00:00Z", NOON),
        ("2040-05-17 14:00+02:00", NOON),
        (datetime(2040, 5, 17, 20), NOON),
        ("2040-05-17T20:00", NOON),
        (date(2040, 5, 18), NOON + 4 * HOUR),
        ("2040-05-18", NOON + 4 * HOUR),
    ],
    ids=str,
)
@override_settings(TIME_ZONE="Asia/Shanghai")
def test_a_moment_may_be_written_in_several_ways(at: Any, moment: datetime) -> None:
    with freeze_tasks(at):
        assert clock.now("default") == moment


@pytest.mark.parametrize("at", ["noon", 12, "", b"2040-05-17"], ids=repr)
def test_what_is_no_moment_is_refused(at: Any) -> None:
    with pytest.raises(TaskValueError, match="at must be a datetime, a date or an ISO text"):
        freeze_tasks(at)


def test_it_can_be_moved_and_pushed() -> None:
    with freeze_tasks(NOON) as time:
        time.tick(HOUR)
        assert time.now == for_django(NOON + HOUR)
        time.tick(0.5)
        assert clock.now("default") == NOON + HOUR + timedelta(seconds=0.5)
        time.move_to("2040-05-17T12:00Z")
        assert time.now == for_django(NOON)
        time.tick(-DAY)
        assert clock.now("default") == NOON - DAY


@pytest.mark.parametrize("delta", ["1h", None, True], ids=repr)
def test_a_push_is_a_timedelta_or_seconds(delta: Any) -> None:
    with freeze_tasks(NOON) as time, pytest.raises(TaskValueError, match="delta must be"):
        time.tick(delta)


def test_the_inner_one_counts() -> None:
    with freeze_tasks(NOON):
        with freeze_tasks(NOON + DAY):
            assert clock.now("default") == NOON + DAY
        assert clock.now("default") == NOON


def test_without_a_moment_it_stops_now() -> None:
    with freeze_tasks():
        begin = clock.now("default")
        add_task("job", "1")
        assert is_now(begin)
        assert clock.now("default") == begin


def test_travels_add_up() -> None:
    with freeze_tasks(NOON), travel(HOUR), travel(DAY) as time:
        assert clock.now("default") == NOON + HOUR + DAY
        time.tick(HOUR)
        assert clock.now("default") == NOON + 2 * HOUR + DAY


def test_a_travel_goes_on_with_a_clock_that_runs() -> None:
    with travel(DAY):
        assert is_now(clock.now("default") - DAY)
        assert clock.now("default") < clock.now("default")


def test_a_travel_follows_the_clock_that_it_is_ahead_of() -> None:
    with freeze_tasks(NOON) as time, travel(DAY):
        time.tick(HOUR)
        assert clock.now("default") == NOON + HOUR + DAY


def test_they_decorate_functions() -> None:
    @freeze_tasks(NOON)
    @travel(HOUR)
    def now() -> datetime:
        return clock.now("default")

    assert now() == now() == NOON + HOUR


def test_a_frozen_host_counts_in_what_runs_in_place(frozen: Freeze, job: Job) -> None:
    job(lambda task: add_task("other", "1", when=HOUR) and None)
    add_task("job", "1", when=NOON)
    with frozen(NOON - HOUR):
        assert run_due_tasks() == []
    with frozen(NOON):
        assert [ran.outcome for ran in run_due_tasks()] == ["done"]
    assert find_tasks("other", when=NOON + HOUR).exists()


def test_a_frozen_host_counts_in_a_drain(frozen: Freeze, job: Job) -> None:
    job(lambda task: DAY)
    add_task("job", "1", when=NOON)
    with frozen(NOON):
        assert len(drain_tasks(until=2 * DAY)) == 3


def test_a_frozen_host_counts_in_a_block_of_freeze_tasks(frozen: Freeze) -> None:
    with frozen(NOON), freeze_tasks():
        assert add_task("job", "1", when=HOUR).when == for_django(NOON + HOUR)


def test_a_block_of_freeze_tasks_goes_on_with_a_frozen_host() -> None:
    with time_machine.travel(NOON, tick=False) as traveller, freeze_tasks():
        traveller.shift(HOUR)
        assert clock.now("default") == NOON + HOUR
    with freezegun.freeze_time(NOON) as freezer, freeze_tasks():
        freezer.tick(HOUR)
        assert clock.now("default") == NOON + HOUR


def test_a_frozen_host_counts_in_a_travel_and_among_captured_tasks(frozen: Freeze) -> None:
    with frozen(NOON):
        with travel(DAY):
            assert clock.now("default") == NOON + DAY
        with captured_tasks():
            add_task("job", "1", when=HOUR)
            assert_task_added("job", "1", when=NOON + HOUR)


def test_outside_of_them_nobody_follows_a_frozen_host(frozen: Freeze) -> None:
    with frozen(NOON):
        with freeze_tasks():
            pass
        add_task("job", "1", when=HOUR)
    assert find_tasks("job").get().when < for_django(NOON)


def test_the_clock_of_a_test_counts_more_than_a_frozen_host(frozen: Freeze, job: Job) -> None:
    with freeze_tasks(NOON), frozen(NOON + DAY):
        assert clock.now("default") == NOON
        with freeze_tasks():
            assert clock.now("default") == NOON


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York", "UTC"])
@pytest.mark.parametrize("offset", [0, 8])
def test_without_zones_the_kit_goes_by_the_time_that_freezegun_shows_the_project(
    job: Job, zone: str, offset: int
) -> None:
    job(lambda task: None)
    with (
        override_settings(USE_TZ=False, TIME_ZONE=zone),
        freezegun.freeze_time("2031-04-06 01:30:00", tz_offset=offset),
    ):
        due = django_now()
        add_tasks(
            [
                Task(biz_code="job", biz_num="later", when=due + HOUR),
                Task(biz_code="job", biz_num="now", when=due),
            ]
        )
        runs = run_due_tasks()
    assert [ran.num for ran in runs] == ["now"]
