"""A delay as ``run_after`` counts from the enqueue, by the one clock of the package."""

import pickle
from datetime import datetime, timedelta, timezone

import pytest
from django.tasks import default_task_backend
from django.tasks.exceptions import InvalidTask
from django.test import override_settings
from freezegun import freeze_time

from django_tasks.backend import KeyedTask, enqueue_many
from django_tasks.models import Task
from django_tasks.store import clock
from django_tasks.testing import freeze_tasks, travel
from tests.functions.functions import note
from tests.functions.test_enqueueing import keyed

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
NOON = datetime(2040, 5, 17, 12, tzinfo=timezone.utc)
LONG_AGO = "2001-02-03"


def due() -> datetime:
    """The time of the only row."""
    when: datetime = Task.objects.get().when
    return when


def test_it_counts_from_the_clock_that_a_test_has_stopped() -> None:
    with freeze_tasks(NOON):
        result = keyed(note, run_after=HOUR).enqueue()
    assert due() == NOON + HOUR
    assert (result.enqueued_at, result.task.run_after) == (NOON, NOON + HOUR)
    assert default_task_backend.get_result(result.id) == result


def test_it_counts_from_the_clock_that_a_test_has_put_ahead() -> None:
    with freeze_tasks(NOON), travel(timedelta(days=3)):
        keyed(note, run_after=HOUR).enqueue()
    assert due() == NOON + timedelta(days=3) + HOUR


def test_a_clock_of_the_host_that_stands_still_counts_for_nothing() -> None:
    before = clock.now("default")
    with freeze_time(LONG_AGO):
        keyed(note, run_after=HOUR).enqueue()
    assert before + HOUR <= due() <= clock.now("default") + HOUR


def test_in_the_kit_it_counts_from_the_frozen_clock_of_the_host() -> None:
    with freeze_time(LONG_AGO), freeze_tasks():
        keyed(note, run_after=HOUR).enqueue()
    assert due() == datetime(2001, 2, 3, 1, tzinfo=timezone.utc)


def test_a_task_that_was_made_an_hour_before_is_not_stale() -> None:
    with freeze_tasks(NOON) as now:
        later = keyed(note, run_after=HOUR, key="1")
        now.tick(HOUR)
        assert later.enqueue().task.run_after == NOON + 2 * HOUR
        now.tick(HOUR)
        assert later.enqueue().task.run_after == NOON + 3 * HOUR
    assert due() == NOON + 3 * HOUR


def test_it_stays_with_a_task_that_is_changed_once_more() -> None:
    with freeze_tasks(NOON) as now:
        later = keyed(keyed(note, run_after=HOUR), priority=5)
        now.tick(HOUR)
        later.enqueue()
    assert due() == NOON + 2 * HOUR


def test_many_calls_have_it_as_well() -> None:
    with freeze_tasks(NOON) as now:
        later = keyed(note, run_after=HOUR)
        now.tick(HOUR)
        results = enqueue_many(later, [([1], {}), ([2], {})])
    assert set(Task.objects.values_list("when", flat=True)) == {NOON + 2 * HOUR}
    assert [result.task.run_after for result in results] == 2 * [NOON + 2 * HOUR]


def test_so_have_calls_that_are_to_be_handed_over() -> None:
    with freeze_tasks(NOON) as now:
        later = keyed(note, backend="outbox", run_after=HOUR)
        now.tick(HOUR)
        later.enqueue()
    assert due() == NOON + 2 * HOUR


@override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai")
def test_without_time_zones_it_ends_at_a_local_time() -> None:
    with freeze_tasks(NOON):
        result = keyed(note, run_after=HOUR).enqueue()
    assert result.task.run_after == datetime(2040, 5, 17, 21)
    assert due() == datetime(2040, 5, 17, 21)


def test_a_backend_that_is_not_ours_gets_a_moment() -> None:
    """Its tasks are validated by Django, which knows moments only."""
    with freeze_tasks(NOON):
        made = keyed(note, backend="dummy", run_after=HOUR)
        moved = keyed(keyed(note, run_after=HOUR), backend="dummy")
    assert made.run_after == moved.run_after == NOON + HOUR


def test_it_survives_a_pickle() -> None:
    later = keyed(note, run_after=HOUR)
    if hasattr(KeyedTask, "_reconstruct"):  # from Django 6.1 on
        assert pickle.loads(pickle.dumps(later)) == later  # noqa: S301 - its own


@pytest.mark.parametrize("days", [999_999_999, -999_999_999, 3_650_000])
def test_one_that_leads_out_of_the_calendar_is_refused(days: int) -> None:
    with pytest.raises(InvalidTask, match="run_after is out of the range of times"):
        keyed(note, run_after=timedelta(days=days))
