"""The seconds that a poller sleeps when it has nothing to claim, or claims in vain."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from django_tasks.store.lanes import Lane
from django_tasks.worker import idling as module
from django_tasks.worker.idling import (
    ASIDE_SECONDS,
    CONTESTED_SECONDS,
    LEAD_KEPT,
    LONGEST_LEAD,
    MOST_DOUBLINGS,
    Idling,
)
from tests.worker.parts import config

NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
POLL_INTERVAL = 4.0


def lane(seconds: float, code: str = "job") -> Lane:
    return Lane("default", 0, code, NOW + timedelta(seconds=seconds))


class World:
    """A membership of some workers, a clock that stands still, and lanes that are closed."""

    def __init__(self) -> None:
        self.workers = 1
        self.closed: dict[str, float] = {}
        self.later: dict[str, float] = {}
        self.clock = self

    def now(self) -> datetime:
        return NOW

    def seconds_to(self, moment: datetime) -> float:
        return (moment - NOW).total_seconds()

    def living(self) -> tuple[int, ...]:
        return tuple(range(self.workers))

    def closed_for(self, lane: Lane) -> float:
        return self.closed.get(lane.biz_code, 0.0)

    def next_due(self, lane: Lane, now: datetime, *, using: str) -> datetime | None:
        seconds = self.later.get(lane.biz_code)
        return None if seconds is None else NOW + timedelta(seconds=seconds)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(module, "uniform", lambda least, most: most)
    monkeypatch.setattr(module, "next_due", world.next_due)
    return world


@pytest.fixture
def idling(world: World) -> Idling:
    membership: Any = world
    return Idling(config(poll_interval=POLL_INTERVAL), membership, world.closed_for)


def in_vain(idling: Idling, times: int) -> None:
    for _ in range(times):
        idling.note_round(0, is_contested=True)


def test_a_claim_is_sent_as_long_before_as_the_last_ones_took(idling: Idling) -> None:
    assert idling.lead == 0
    idling.note_claim(0.002)
    assert idling.lead == 0.002
    idling.note_claim(0.001)
    assert idling.lead == pytest.approx(0.002 * LEAD_KEPT)
    idling.note_claim(0.004)
    assert idling.lead == 0.004
    idling.note_claim(3.0)
    assert idling.lead == LONGEST_LEAD


def test_rounds_in_vain_count_until_one_brings_something(idling: Idling) -> None:
    in_vain(idling, 2)
    assert idling.in_vain == 2
    idling.note_round(0, is_contested=False)  # limits were reached
    assert idling.in_vain == 2
    idling.note_round(1, is_contested=True)
    assert idling.in_vain == 0


def test_it_sleeps_until_the_first_task_is_due_less_the_lead(idling: Idling) -> None:
    assert idling.until_first([lane(3), lane(1.5), lane(2)]) == 1.5
    idling.note_claim(0.004)
    assert idling.until_first([lane(1.5)]) == pytest.approx(1.496)


def test_or_until_its_lane_is_open(idling: Idling, world: World) -> None:
    world.closed = {"slow": 2.5}
    assert idling.until_first([lane(1, "slow"), lane(3)]) == 2.5
    assert idling.until_first([lane(1, "slow"), lane(2)]) == 2


def test_or_for_the_poll_interval(idling: Idling) -> None:
    assert idling.until_first([]) == POLL_INTERVAL


def test_what_others_have_is_looked_for_later_each_time(idling: Idling) -> None:
    due = [lane(-1)]
    pauses = []
    for _ in range(10):
        in_vain(idling, 1)
        pauses.append(idling.until_contested(due, due, NOW))
    most = 1.5 * CONTESTED_SECONDS
    expected = [min(most * 2**number, POLL_INTERVAL) for number in range(10)]
    assert pauses == pytest.approx(expected)
    assert pauses[-1] == POLL_INTERVAL


def test_the_doubling_ends_before_a_number_is_too_large(idling: Idling) -> None:
    in_vain(idling, 5000)
    assert idling.until_contested([], [], NOW) == POLL_INTERVAL
    assert CONTESTED_SECONDS * 2**MOST_DOUBLINGS > 60


def test_something_else_that_is_due_sooner_ends_the_pause(idling: Idling, world: World) -> None:
    contested, other = lane(-1), lane(0.2, "other")
    in_vain(idling, 8)
    assert idling.until_contested([contested, other], [contested], NOW) == pytest.approx(0.2)
    world.later = {"job": 0.1}
    assert idling.until_contested([contested, other], [contested], NOW) == pytest.approx(0.1)
    idling.note_claim(0.004)
    assert idling.until_contested([contested, other], [contested], NOW) == pytest.approx(0.096)
    world.later = {"job": 0.001}
    assert idling.until_contested([contested], [contested], NOW) == 0


def test_a_lane_whose_first_task_is_due_now_is_no_later_one(idling: Idling) -> None:
    in_vain(idling, 8)
    assert idling.until_contested([lane(0)], [lane(0)], NOW) > 1


def test_but_not_after_the_first_round(idling: Idling, world: World) -> None:
    """It asks the database nothing then: somebody was just quicker."""
    world.later = {"job": 0.001}
    in_vain(idling, 1)
    pause = idling.until_contested([lane(-1)], [lane(-1)], NOW)
    assert pause == pytest.approx(1.5 * CONTESTED_SECONDS)


def test_a_worker_that_came_in_vain_steps_aside_for_the_others(
    idling: Idling, world: World
) -> None:
    world.workers = 11
    assert idling.until_first([lane(1)]) == 1
    in_vain(idling, 1)
    assert idling.until_first([lane(1)]) == pytest.approx(1 + 10 * ASIDE_SECONDS)
    pause = idling.until_contested([], [], NOW)
    assert pause == pytest.approx(1.5 * CONTESTED_SECONDS + 10 * ASIDE_SECONDS)
    world.workers = 0  # it does not even know itself yet
    assert idling.until_first([lane(1)]) == 1
