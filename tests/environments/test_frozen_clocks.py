"""A project's tests freeze time; tasks and locks go by the database's clock all the same."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import Any

import freezegun
import pytest
import time_machine
from django.utils import timezone as django_timezone

from django_tasks.api import (
    CancelResult,
    LockTaken,
    Task,
    add_task,
    add_tasks,
    cancel_task,
    get_task,
    get_tasks_by_code,
    lock,
    reschedule_task,
    run_task_now,
)
from django_tasks.models import Lock
from django_tasks.store import clock, workers
from django_tasks.store.workers import Door
from django_tasks.wakeup import postgres, wake

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
FAR_AHEAD = datetime(2101, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
SOON = timedelta(seconds=20)

Freeze = Callable[[datetime], AbstractContextManager[Any]]


@pytest.fixture(params=["freezegun", "time-machine"])
def frozen(request: pytest.FixtureRequest) -> Freeze:
    if request.param == "freezegun":
        return freezegun.freeze_time
    return lambda moment: time_machine.travel(moment, tick=False)


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    """Neither the clock nor the doorbells, of an earlier test or of this one."""
    clock._readings.clear()
    wake._doors.clear()
    yield
    clock._readings.clear()
    wake._doors.clear()


def a_task(biz_num: str = "1", **fields: Any) -> Task:
    return Task(biz_code="job", biz_num=biz_num, **fields)


def is_about(moment: datetime, expected: datetime) -> bool:
    # The server's clock, or a coarse one, may be a little behind.
    return -timedelta(seconds=1) < moment - expected < SOON


@pytest.mark.parametrize("moment", [LONG_AGO, FAR_AHEAD], ids=["past", "future"])
def test_after_a_frozen_test_the_clock_is_right_at_once(frozen: Freeze, moment: datetime) -> None:
    begin = datetime.now(timezone.utc)
    with frozen(moment):
        assert is_about(clock.now("default"), begin)
    assert is_about(clock.now("default"), begin)


def test_inside_a_frozen_block_tasks_go_by_the_databases_clock(frozen: Freeze) -> None:
    begin = datetime.now(timezone.utc)
    with frozen(LONG_AGO):
        repeated = add_task(a_task("1", schedule="every 30m"))
        debounced = add_task(a_task("2"), on_conflict="debounce", wait=60)
        add_task(a_task("3", when=LONG_AGO))
        assert run_task_now("job", "3")
        add_task(a_task("4", when=LONG_AGO))
        assert cancel_task("job", "4") == CancelResult.CANCELLED
        stored = {task.biz_num: task.when for task in get_tasks_by_code("job")}
    assert is_about(repeated.when, begin + timedelta(minutes=30))
    assert is_about(debounced.when, begin + timedelta(minutes=1))
    assert stored["1"] == repeated.when
    assert is_about(stored["3"], begin)
    assert set(stored) == {"1", "2", "3"}


@pytest.mark.parametrize("moment", [LONG_AGO, FAR_AHEAD], ids=["past", "future"])
def test_a_lock_is_held_as_long_as_it_is_whoever_freezes_time(
    frozen: Freeze, moment: datetime
) -> None:
    with lock("outer") as outer, frozen(moment):
        outer.check()
        with lock("inner") as inner:
            with pytest.raises(LockTaken), lock("outer"):
                pass
            inner.check()
    assert not Lock.objects.exclude(holder="").exists()


def test_a_lock_taken_in_a_frozen_block_ends_with_its_lease(frozen: Freeze) -> None:
    begin = datetime.now(timezone.utc)
    with frozen(FAR_AHEAD):
        section = lock("report")
        held = section.__enter__()
    try:
        assert 0 < held._seconds_left() <= 30
        until = datetime.fromtimestamp(Lock.objects.get().until / 1e6, timezone.utc)
        assert is_about(until, begin + timedelta(seconds=30))
    finally:
        section.__exit__(None, None, None)


def zoned(moment: datetime) -> datetime:
    return django_timezone.localtime(moment)


def naive(moment: datetime) -> datetime:
    return django_timezone.make_naive(moment)


@pytest.mark.parametrize(
    "made", [lambda moment: moment, zoned, naive], ids=["utc", "zone", "naive"]
)
def test_a_moment_of_a_frozen_clock_is_stored_as_it_is(
    made: Callable[[datetime], datetime],
) -> None:
    """freezegun's datetimes are of a class of its own."""
    with freezegun.freeze_time(LONG_AGO):
        when = made(django_timezone.now() + timedelta(hours=1, microseconds=7))
        assert type(when).__name__ == "FakeDatetime"
        assert add_task(a_task("1", when=when)).when == django_or_aware(when)
        add_tasks([a_task(str(number), when=when) for number in range(2, 12)])
        add_task(a_task("12", when=datetime(2010, 1, 1, tzinfo=timezone.utc)))
        assert reschedule_task("job", "12", when)
        assert len(get_tasks_by_code("job", when=when)) == 12
    expected = LONG_AGO + timedelta(hours=1, microseconds=7)
    for number in range(1, 13):
        task = get_task("job", str(number))
        assert task is not None
        assert task.when == expected


def django_or_aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else django_timezone.make_aware(moment)


def test_doorbells_that_were_read_in_a_frozen_block_are_not_kept(
    frozen: Freeze, monkeypatch: pytest.MonkeyPatch
) -> None:
    if postgres.are_sent("default"):
        return  # nobody rings there
    monkeypatch.setattr(wake, "NO_DOORS_SECONDS", 0.0)
    with frozen(FAR_AHEAD):
        assert wake._known_doors("default") == []
    now = datetime.now(timezone.utc)
    registration = workers.Registration("elsewhere:1:ab", 30.0, 8, doorbell="10.0.0.5:5")
    workers.register(registration, now, using="default")
    assert wake._known_doors("default") == [Door("elsewhere:1:ab", "10.0.0.5:5")]
