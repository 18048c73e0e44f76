"""Properties of every schedule."""

import copy
import pickle
from dataclasses import FrozenInstanceError
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks.schedules import Every
from tests.schedules.strategies import instants, schedules

UTC = timezone.utc
moves = st.timedeltas(timedelta(0), timedelta(days=500))
previouses = st.none() | instants


@given(schedules, previouses, instants)
def test_a_fire_is_strictly_later_than_now_in_utc_and_in_the_window(schedule, previous, now):
    fire = schedule.next_after(previous, now)

    if fire is not None:
        assert fire > now
        assert fire.tzinfo is UTC
        assert schedule.start is None or fire >= schedule.start
        assert schedule.end is None or fire <= schedule.end


@given(schedules, instants, instants, moves)
def test_later_questions_have_later_answers(schedule, previous, now, move):
    """And nothing lies between a question and its answer."""
    fire, later = schedule.next_after(previous, now), schedule.next_after(previous, now + move)

    if fire is None:
        assert later is None
    elif now + move < fire:
        assert later == fire
    else:
        assert later is None or later > fire


@given(schedules, previouses, instants)
def test_the_moment_just_before_a_fire_has_it_as_its_answer(schedule, previous, now):
    previous = previous or now
    fire = schedule.next_after(previous, now)

    if fire is not None:
        assert schedule.next_after(previous, fire - timedelta.resolution) == fire


@given(schedules, instants)
def test_a_count_ends_a_schedule_after_so_many_fires(schedule, now):
    if schedule.count is None or schedule.start is None:
        return
    fires, at = 0, schedule.start - timedelta.resolution
    while (at := schedule.next_after(None, at)) is not None and fires < 30:
        fires += 1

    assert fires <= schedule.count
    assert fires == schedule.count or schedule.end is not None or _ends(schedule)


def _ends(schedule):
    """Tell if a schedule is made of such as may end by themselves."""
    text = str(schedule)
    return text.startswith(("at ", "any of", "all of")) or "year=" in text


@given(schedules)
def test_values_are_frozen_and_can_be_copied(schedule):
    with pytest.raises(FrozenInstanceError):
        schedule.count = 5
    assert copy.copy(schedule) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301


@given(instants, moves, st.timedeltas(timedelta(microseconds=1), timedelta(days=40)))
def test_an_interval_keeps_its_beat(previous, late, interval):
    fire = Every(interval).next_after(previous, previous + late)

    assert (fire - previous) % interval == timedelta(0)
    assert timedelta(0) < fire - (previous + late) <= interval
