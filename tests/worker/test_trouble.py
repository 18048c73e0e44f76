"""Lanes that are left alone for a while, longer each time, and portions that get smaller."""

from datetime import datetime, timezone

import pytest

from django_tasks.store.lanes import Lane
from django_tasks.worker import lane_claims as module
from django_tasks.worker.lane_claims import FIRST_PAUSE, LONGEST_PAUSE, Portions, Troubled
from tests.worker.parts import USING, StillTicks

THEN = datetime(2030, 1, 1, tzinfo=timezone.utc)
LANE, OTHER = Lane("default", 0, "job", THEN), Lane("default", 1, "job", THEN)
ERROR = ValueError("integer out of range")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillTicks:
    clock = StillTicks()
    monkeypatch.setattr(module, "ticks", clock)
    return clock


def test_a_lane_in_trouble_is_left_alone_for_longer_each_time(clock: StillTicks) -> None:
    lanes, pauses = Troubled(USING), []
    for _ in range(9):
        lanes.note(LANE, ERROR)
        assert not lanes.is_open(LANE)
        assert lanes.is_open(OTHER)
        pauses.append(lanes.closed_for(LANE))
        clock.now += pauses[-1]
        assert lanes.is_open(LANE)
        assert lanes.closed_for(LANE) == 0
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    assert lanes.closed_for(OTHER) == 0


def test_one_that_is_well_again_is_open_and_begins_anew(clock: StillTicks) -> None:
    lanes = Troubled(USING)
    for _ in range(3):
        lanes.note(LANE, ERROR)
    lanes.note(OTHER, ERROR)
    lanes.forget(LANE)
    assert lanes.is_open(LANE)
    assert not lanes.is_open(OTHER)
    lanes.note(LANE, ERROR)
    assert lanes.closed_for(LANE) == FIRST_PAUSE


def test_the_later_time_of_a_lane_changes_nothing(clock: StillTicks) -> None:
    lanes = Troubled(USING)
    lanes.note(LANE, ERROR)
    assert not lanes.is_open(LANE._replace(first=datetime.now(timezone.utc)))


def test_it_is_told_with_its_database_and_its_error(
    clock: StillTicks, caplog: pytest.LogCaptureFixture
) -> None:
    Troubled("another").note(LANE, ERROR)
    (message,) = caplog.messages
    assert "another" in message
    assert "'job'" in message
    assert "integer out of range" in message


def test_a_portion_is_halved_down_to_one_and_doubles_up_to_all() -> None:
    portions = Portions(10)
    sizes = [portions.of(LANE)]
    for _ in range(5):
        portions.halve(LANE, portions.of(LANE))
        sizes.append(portions.of(LANE))
    for _ in range(5):
        portions.grow(LANE)
        sizes.append(portions.of(LANE))
    assert sizes == [10, 5, 2, 1, 1, 1, 2, 4, 8, 10, 10]
    assert portions.of(OTHER) == 10


def test_the_claims_of_one_lane_do_not_have_another_one_grow() -> None:
    portions = Portions(8)
    portions.halve(LANE, 8)
    portions.grow(OTHER)
    assert (portions.of(LANE), portions.of(OTHER)) == (4, 8)
