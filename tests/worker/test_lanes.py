"""Looks for lanes: from the start of each where that is cheap, and seldom where it is dear."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest
from django.db import OperationalError

from django_tasks.client.adding import add_tasks
from django_tasks.clock import Clock
from django_tasks.store import lanes as store
from django_tasks.store.clock import read_clock
from django_tasks.store.finish import Ended
from django_tasks.store.lanes import LANES_AT_ONCE, Lane, Look, Place
from django_tasks.store.pauses import Scope, scopes_over, set_pause
from django_tasks.values.outcomes import Done, Retry
from django_tasks.worker import lanes as module
from django_tasks.worker.idling import LONGEST_SLEEP
from django_tasks.worker.lanes import (
    DEAR_SECONDS,
    FULL_SHARE,
    HINTED_SHARE,
    LONGEST_FULL_SECONDS,
    Lanes,
)
from django_tasks.worker.last_look import RELIED_SECONDS
from django_tasks.worker.marks import Marks, key_of
from tests.factories import a_claim_of, a_task
from tests.waiting import DEADLINE
from tests.worker.conftest import Register
from tests.worker.parts import CODE, USING, config

NOW = datetime(2030, 1, 1, 12, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def _dear_ones_are_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are as dear here as the worlds below say."""
    monkeypatch.setattr(module, "DEAR_SECONDS", DEAR_SECONDS)


class World:
    """A database whose full looks take ``cost`` seconds, and a clock that counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tick = 1000.0
        self.cost = 0.0003
        self.cost_along = 0.0
        self.lanes = [Lane("default", 0, "job", NOW - timedelta(seconds=60))]
        self.pauses: frozenset[Any] = frozenset()
        self.looks: list[str] = []
        self.asked: list[Mapping[Any, Place | None]] = []
        self.error: Exception | None = None
        monkeypatch.setattr(store, "look", self._look)
        monkeypatch.setattr(store, "look_along", self._look_along)
        monkeypatch.setattr(store, "count_due", lambda lane, now, using: "1")

    def monotonic(self) -> float:
        return self.tick

    def _look(self, *, using: str) -> Look:
        self.looks.append("full")
        self.tick += self.cost
        return Look(self.lanes, self.pauses)

    def _look_along(
        self, places: Mapping[Any, Place | None], *, using: str, with_pauses: bool = True
    ) -> Look:
        self.looks.append("along" if with_pauses else "again")
        self.tick += self.cost_along
        self.asked.append(places)
        if self.error:
            raise self.error
        found = [lane for lane in self.lanes if key_of(lane) in places]
        return Look(found, self.pauses)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, register: Register) -> World:
    register(lambda task: None)
    return World(monkeypatch)


def a_worker(world: World, marks: Marks | None = None, **wishes: Any) -> Lanes:
    clock: Any = world
    return Lanes(config(**wishes), clock, marks or Marks())


def looked(lanes: Lanes, world: World, times: int = 1, every: float = 0.0) -> list[str]:
    """The looks of a worker that has used up what it knew, so many times."""
    world.looks.clear()
    for _ in range(times):
        world.tick += every
        lanes.use_up()
        lanes.recent(NOW)
    return list(world.looks)


def test_cheap_looks_are_full_ones(world: World) -> None:
    assert looked(a_worker(world), world, times=5) == ["full"] * 5


def test_one_that_takes_long_by_chance_changes_nothing(world: World) -> None:
    lanes = a_worker(world)
    for cost in (0.0003, 3.0, 0.0003, 3.0):
        world.cost = cost
        assert looked(lanes, world) == ["full"]


def test_dear_ones_keep_to_a_share_of_the_time(world: World) -> None:
    lanes = a_worker(world)
    world.cost = 0.1
    assert looked(lanes, world, times=4) == ["full", "full", "along", "along"]
    pause = world.cost / FULL_SHARE
    assert looked(lanes, world, times=20, every=pause / 10 + 1e-6).count("full") == 2


def test_but_come_at_least_once_in_a_while(world: World) -> None:
    lanes = a_worker(world)
    world.cost = 5.0
    looked(lanes, world, times=2)
    assert looked(lanes, world, every=LONGEST_FULL_SECONDS - 1) == ["along"]
    assert looked(lanes, world, every=1.001) == ["full"]


def test_a_hint_of_overdue_tasks_has_one_come_sooner(world: World) -> None:
    lanes = a_worker(world)
    world.cost = 0.1
    looked(lanes, world, times=2)
    lanes.look_far_back()
    assert looked(lanes, world) == ["along"]
    pause = world.cost / HINTED_SHARE + 0.001
    assert looked(lanes, world, every=pause) == ["full"]
    assert looked(lanes, world, every=pause) == ["along"]


def test_once_they_are_cheap_again_all_is_as_before(world: World) -> None:
    lanes = a_worker(world)
    world.cost = 0.1
    looked(lanes, world, times=2)
    world.cost = DEAR_SECONDS / 2
    assert looked(lanes, world, every=60.0) == ["full"]
    assert looked(lanes, world, times=3) == ["full"] * 3


def test_many_lanes_are_asked_for_in_parts(world: World) -> None:
    begun = [NOW - timedelta(seconds=number % 7) for number in range(2 * LANES_AT_ONCE + 1)]
    world.lanes = [Lane(f"q{number}", 0, "job", first) for number, first in enumerate(begun)]
    world.cost = 0.1
    lanes = a_worker(world)
    looked(lanes, world, times=2)
    known, world.lanes = world.lanes, world.lanes[:1]
    world.asked.clear()
    assert looked(lanes, world) == ["along"] * 3
    assert {key for places in world.asked for key in places} == {
        *(key_of(lane) for lane in known),
        ("default", 0, "job"),
    }
    assert max(map(len, world.asked)) == LANES_AT_ONCE


def test_a_lane_is_paused_by_any_pause_that_covers_it() -> None:
    scopes = [Scope(queue, code) for queue in ("", "mail", "other") for code in ("", "a", "b")]
    for scope in scopes:
        for queue, code in product(("mail", "other"), "ab"):
            expected = scope.queue in ("", queue) and scope.biz_code in ("", code)
            assert (scope in scopes_over(queue, code)) == expected
            assert Look([], frozenset({scope})).is_paused(queue, code) == expected


@pytest.mark.django_db
def test_hundreds_of_lanes_are_found_from_the_marks_as_by_a_full_look(register: Register) -> None:
    """More than SQLite takes in one statement, and with pauses of some."""
    register(lambda task: None)
    whens = [NOW + timedelta(seconds=number) for number in range(600)]
    add_tasks(
        [
            a_task(str(number), biz_code=CODE, queue=f"q{number:03}", when=when)
            for number, when in enumerate(whens)
        ]
    )
    for number in range(0, 600, 7):
        set_pause(Scope(f"q{number:03}", ""), NOW, using=USING)
    clock = Clock(read_clock(using=USING))
    lanes = Lanes(config(), clock, Marks())
    expected = lanes._full_look(NOW)
    lanes._cost = DEADLINE
    assert lanes._look_along(clock.monotonic()) == expected
    assert len(expected) == 600 - 86


def test_a_look_from_the_marks_that_takes_longer_than_a_full_one_is_given_up(world: World) -> None:
    """Many lanes, or a long way to the server, make full looks dear and yet the cheaper ones."""
    world.lanes = [Lane(f"q{number}", 0, "job", NOW) for number in range(2000)]
    world.cost, world.cost_along = 0.02, 0.003
    lanes = a_worker(world)
    looked(lanes, world, times=2)
    begun = world.tick
    found = looked(lanes, world)
    assert (found[0], found[-1]) == ("along", "full")
    assert world.tick - begun <= 2 * world.cost
    assert looked(lanes, world, times=3) == ["full"] * 3
    share = [looked(lanes, world, every=0.01) for _ in range(100)]
    in_vain = sum(world.cost_along for looks in share for look in looks if look == "along")
    assert 0 < in_vain <= 1.5 * FULL_SHARE * 100 * (0.01 + world.cost) + world.cost
    world.cost *= 3  # deleted rows lie there now: it may be worth while again
    assert "along" in looked(lanes, world, times=3)


def test_a_look_along_asks_for_known_lanes_and_those_of_the_handlers_from_their_places(
    world: World, register: Register
) -> None:
    register(lambda task: None, "mail", queue="mail", priority=3)
    marks = Marks()
    world.lanes = [
        Lane("default", 5, "job", NOW - timedelta(seconds=60)),
        Lane("default", 0, "of another release", NOW - timedelta(seconds=60)),
    ]
    world.cost = 0.1
    looked(a_worker(world, marks), world, times=3)
    (places,) = world.asked
    assert places == {
        ("default", 5, "job"): Place(NOW - timedelta(seconds=60), 0),
        ("default", 0, "job"): None,
        ("mail", 3, "mail"): None,
    }


def test_a_look_along_asks_for_what_the_worker_serves(world: World, register: Register) -> None:
    register(lambda task: None, "mail", queue="mail")
    world.lanes = []
    world.cost = 0.1
    looked(a_worker(world, queues=("mail",)), world, times=3)
    assert list(world.asked[0]) == [("mail", 0, "mail")]


def test_a_worker_that_ends_with_the_last_task_is_sure_that_it_is(world: World) -> None:
    lanes = a_worker(world, until_empty=True)
    world.cost = 0.1
    looked(lanes, world, times=2)
    assert looked(lanes, world) == ["along"]
    world.lanes = []
    assert looked(lanes, world) == ["along", "full"]


@pytest.mark.parametrize("cost", [0.0003, 0.1])
def test_lanes_that_claims_come_back_full_from_are_looked_at_now_and_then(
    world: World, cost: float
) -> None:
    lanes = a_worker(world)
    world.cost = cost
    looked(lanes, world, times=2)
    lanes.recent(NOW)
    lanes.rely()
    world.looks.clear()
    assert lanes.recent(NOW) == world.lanes
    assert world.looks == []
    world.tick += 0.25
    lanes.recent(NOW)
    assert len(world.looks) == 1


def test_after_a_foreseen_lane_there_is_a_look_also_if_a_claim_came_back_full(
    world: World,
) -> None:
    """Or the worker would take it that nothing waits, and sleep until its next poll."""
    lanes = a_worker(world)
    assert lanes.recent(NOW) == world.lanes
    assert lanes.foreseen(NOW) == world.lanes
    lanes.rely()
    world.looks.clear()
    assert lanes.recent(NOW) == world.lanes
    assert world.looks == ["full"]


# Where looks are dear, the last one is relied on for a while


def lanes_at(*seconds: float) -> list[Lane]:
    """Lanes whose first tasks are due so many seconds from now."""
    return [
        Lane(f"q{number}", 0, "job", NOW + timedelta(seconds=later))
        for number, later in enumerate(seconds)
    ]


@pytest.fixture
def dear(world: World) -> World:
    """A world in which two looks in a row were dear, also those from the marks."""
    world.cost = world.cost_along = 2 * DEAR_SECONDS
    world.lanes = lanes_at(1, 2, 3)
    return world


def a_worker_that_relies(world: World, marks: Marks | None = None, **wishes: Any) -> Lanes:
    lanes = a_worker(world, marks, **wishes)
    looked(lanes, world, times=2)
    world.looks.clear()
    world.asked.clear()
    world.cost_along = 0.0
    return lanes


def test_after_a_claim_its_lane_alone_is_asked_again(dear: World) -> None:
    lanes = a_worker_that_relies(dear)
    first, *others = dear.lanes
    later = first._replace(first=NOW + timedelta(seconds=2.5))
    dear.lanes = [later]
    lanes.use_up(first)
    assert lanes.recent(NOW) == [others[0], later, others[1]]
    assert [set(places) for places in dear.asked] == [{key_of(first)}]
    dear.lanes = []
    lanes.use_up(later)
    assert lanes.recent(NOW) == others
    assert dear.looks == ["again", "again"]


def test_lanes_that_were_foreseen_and_claimed_are_asked_again_and_the_others_are_known(
    dear: World,
) -> None:
    lanes = a_worker_that_relies(dear)
    lanes.recent(NOW)
    (first,) = lanes.foreseen(NOW + timedelta(seconds=1))
    lanes.rely()
    lanes.use_up(first)
    others, dear.lanes = dear.lanes[1:], []
    assert lanes.recent(NOW) == others


def test_it_is_relied_on_no_longer_than_a_worker_sleeps(dear: World) -> None:
    for poll_interval in (5.0, RELIED_SECONDS / 2):
        lanes = a_worker_that_relies(dear, poll_interval=poll_interval)
        begun = dear.tick
        while not dear.looks:
            dear.tick += 0.01
            assert lanes.until_poll() >= 0
            lanes.recent(NOW)
        assert dear.tick - begun <= min(poll_interval, RELIED_SECONDS) + 0.011
        dear.cost_along = 2 * DEAR_SECONDS


def test_a_worker_that_relies_on_a_look_sleeps_no_longer_than_others(dear: World) -> None:
    lanes = a_worker_that_relies(dear, poll_interval=0.3)
    dear.tick += 0.19
    lanes.recent(NOW)
    assert lanes.until_poll() == pytest.approx(0.3 * LONGEST_SLEEP - 0.19)


@pytest.mark.parametrize(
    "news",
    [
        lambda lanes, marks: lanes.look_far_back(),
        lambda lanes, marks: lanes.use_up(),
        lambda lanes, marks: marks.forget(),
    ],
    ids=["a hint of overdue tasks", "a claim in vain", "rows of unknown lanes"],
)
def test_it_is_not_relied_on_after(dear: World, news: Callable[[Lanes, Marks], None]) -> None:
    marks = Marks()
    lanes = a_worker_that_relies(dear, marks)
    news(lanes, marks)
    lanes.recent(NOW)
    assert dear.looks
    assert "again" not in dear.looks


def test_after_a_hint_there_is_a_look_once_so_much_time_has_passed_as_it_took(dear: World) -> None:
    lanes = a_worker_that_relies(dear)
    lanes.heed_hint()
    lanes.recent(NOW)
    assert dear.looks == []
    dear.tick += lanes.until_poll() - 0.001
    lanes.recent(NOW)
    assert dear.looks == []
    dear.tick += 0.002
    assert lanes.until_poll() == 0
    lanes.recent(NOW)
    assert dear.looks == ["along"]


def test_a_hint_during_a_claim_in_vain_is_not_slept_on(dear: World) -> None:
    lanes = a_worker_that_relies(dear)
    lanes.heed_hint()
    lanes.use_up()
    assert lanes.until_poll() == 0


@pytest.mark.parametrize("moved", [False, True])
def test_a_lane_in_which_a_row_waits_again_is_asked_again(dear: World, moved: bool) -> None:
    marks = Marks()
    lanes = a_worker_that_relies(dear, marks)
    claimed = a_claim_of(5, NOW)._replace(queue="new")
    retry = Retry(NOW + timedelta(seconds=0.5), "")
    marks.note_written([Ended(claimed, Done() if moved else retry)], {5} if moved else set())
    again = Lane("new", 0, "job", retry.when)
    dear.lanes = [*dear.lanes, again]
    assert lanes.recent(NOW) == [again, *dear.lanes[:-1]]
    assert [set(places) for places in dear.asked] == [{("new", 0, "job")}]


def test_where_many_lanes_are_to_be_asked_again_there_is_a_look(dear: World) -> None:
    dear.lanes = lanes_at(*range(LANES_AT_ONCE + 1))
    lanes = a_worker_that_relies(dear)
    for lane in dear.lanes:
        lanes.use_up(lane)
    lanes.recent(NOW)
    assert "again" not in dear.looks


def test_a_lane_is_asked_again_until_there_is_an_answer(dear: World) -> None:
    lanes = a_worker_that_relies(dear)
    first, *others = dear.lanes
    lanes.use_up(first)
    dear.error = OperationalError()
    with pytest.raises(OperationalError):
        lanes.recent(NOW)
    dear.error, dear.lanes = None, []
    assert lanes.recent(NOW) == others


def test_cheap_looks_are_not_relied_on(world: World) -> None:
    lanes = a_worker(world)
    looked(lanes, world, times=2)
    lanes.use_up(world.lanes[0])
    lanes.recent(NOW)
    assert world.looks == ["full", "full", "full"]


def test_a_worker_that_ends_with_the_last_task_relies_on_none(dear: World) -> None:
    lanes = a_worker(dear, until_empty=True)
    looked(lanes, dear, times=2)
    dear.looks.clear()
    lanes.use_up(dear.lanes[0])
    lanes.recent(NOW)
    assert "again" not in dear.looks
