"""The next claims of a worker, and its sleep when there is nothing."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection, connections
from django.test.utils import CaptureQueriesContext

from django_tasks.client.control import cancel_task
from django_tasks.clock import Clock, ClockReading
from django_tasks.handlers.base import TaskHandler
from django_tasks.models import Task
from django_tasks.store import claim as store
from django_tasks.store import errors
from django_tasks.store.dialects.postgresql import PostgreSQL
from django_tasks.store.lanes import Lane
from django_tasks.worker import claiming as module
from django_tasks.worker import lane_claims, suspects
from django_tasks.worker.claiming import Claiming
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.idling import ASIDE_SECONDS, CONTESTED_SECONDS, LONGEST_LEAD
from django_tasks.worker.marks import Marks
from django_tasks.worker.membership import Membership
from django_tasks.worker.poller import Poller
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import (
    CODE,
    USING,
    Hands,
    Ticks,
    added,
    ago,
    ahead,
    config,
    joined,
    no_terms,
    runner,
    worker_row,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


class Claimer:
    """A worker without a poller: the test says when it claims, works and writes."""

    def __init__(self, membership: Membership | None = None, size: int = 10, **wishes: Any):
        self.config = config(**wishes)
        self.membership = membership or joined()
        self.hands = Hands(runner(self.membership), size)
        marks = Marks()
        self.finisher = Finisher(self.config, marks)
        self.claiming = Claiming(
            self.config,
            self.membership,
            self.hands.executor,
            self.finisher,
            marks,
            no_terms(self.membership),
        )

    def claim(self, careful: bool = False) -> float:
        return self.claiming.claim(careful=careful)

    def keys(self) -> list[str]:
        """Keys that were claimed and wait, in their order."""
        return [claimed.biz_num for claimed in self.hands.waiting]

    def finish(self) -> None:
        """All that was claimed runs and its ends are written."""
        self.hands.work()
        self.finisher.add(self.hands.collect())
        self.finisher.write(self.membership.clock.now(), careful=False)


def test_due_tasks_are_claimed_the_earliest_first(register: Register) -> None:
    register(lambda task: None)
    for number, seconds in enumerate((10, 30, 20)):
        added(str(number), when=ahead(-seconds))
    added("future", when=ahead(60))
    claimer = Claimer()
    assert claimer.claim() == 0
    assert claimer.keys() == ["1", "2", "0"]
    assert not claimer.claiming.nothing_due


def test_higher_priorities_go_first_however_late_others_are(register: Register) -> None:
    register(lambda task: None)
    added("old", when=ahead(-1000))
    added("low", priority=-1, when=ahead(-2000))
    added("high", priority=1, when=ahead(-1))
    claimer = Claimer()
    claimer.claim()
    assert claimer.keys() == ["high", "old", "low"]


@pytest.mark.parametrize(
    ("taken", "order"),
    [("", "h ij abcd e"), ("h", "h ji edcb a"), ("j", "h ij edcb a"), ("b", "h ij abcd e")],
)
def test_where_somebody_else_was_sooner_workers_walk_on_in_different_orders(
    register: Register, monkeypatch: pytest.MonkeyPatch, taken: str, order: str
) -> None:
    """Those of a high priority first all the same."""
    for place, code in enumerate("abcdehij"):
        register(lambda task: None, code)
        added("1", code, when=ahead(place - 1000), priority=int(code >= "h"))
    chances = iter(range(100, 0, -1))
    monkeypatch.setattr(module, "random", lambda: next(chances))
    claimer, walked = Claimer(), []
    claims = claimer.claiming._lane_claims
    one, several = claims.claim, claims.claim_together

    def claim(who: Any, lane: Lane, *args: Any, **wishes: Any) -> Any:
        walked.append(lane.biz_code)
        return [] if lane.biz_code == taken else one(who, lane, *args, **wishes)

    def claim_together(who: Any, portions: list[tuple[Lane, int]], *args: Any) -> Any:
        walked.append("".join(lane.biz_code for lane, _ in portions))
        pairs = zip(portions, several(who, portions, *args), strict=True)
        return [[] if lane.biz_code == taken else some for (lane, _), some in pairs]

    monkeypatch.setattr(claims, "claim", claim)
    monkeypatch.setattr(claims, "claim_together", claim_together)
    claimer.claim()
    assert " ".join(walked) == order


def test_no_more_is_claimed_than_there_is_room_for(register: Register) -> None:
    register(lambda task: None)
    register(lambda task: None, "other")
    for number in range(5):
        added(str(number))
        added(str(number), "other")
    claimer = Claimer(size=7)
    claimer.claim()
    assert len(claimer.keys()) == 7
    claimer.claim()
    assert len(claimer.keys()) == 7


def batched(handlers: Any, **attributes: Any) -> None:
    """Register a handler that takes batches of up to three."""
    attributes = {"batch": 3, "handle_batch": lambda handler, tasks: None} | attributes
    handlers(type("Batched", (TaskHandler,), {"biz_code": CODE, **attributes}))


@pytest.mark.parametrize(
    ("size", "wishes", "sizes"),
    [
        (2, {}, [3, 3]),
        (9, {}, [3, 3, 1]),
        (9, {"batch_size": 2}, [2]),
        (1, {"batch_size": 2}, [2]),
        (9, {"max_tasks": 4}, [3, 1]),
    ],
    ids=str,
)
def test_a_batch_takes_the_room_of_one_task(
    handlers: Any, size: int, wishes: dict[str, Any], sizes: list[int]
) -> None:
    batched(handlers)
    for number in range(7):
        added(str(number))
    claimer = Claimer(size=size, **wishes)
    claimer.claim()
    assert [len(item) for item in claimer.hands.items] == sizes


def test_a_batch_takes_as_many_as_the_gate_leaves(handlers: Any) -> None:
    batched(handlers, max_running=2)
    for number in range(7):
        added(str(number))
    claimer = Claimer()
    for _ in range(3):
        claimer.claim()
    assert [len(item) for item in claimer.hands.items] == [2]


def test_a_suspect_is_a_batch_of_one(handlers: Any) -> None:
    batched(handlers)
    suspicious("s", "t")
    claimer = Claimer()
    claimer.claiming.look_for_suspects()
    for _ in range(3):
        claimer.claim()
    assert [len(item) for item in claimer.hands.items] == [1]


def test_without_room_it_asks_the_database_nothing(
    register: Register, django_assert_num_queries: Any
) -> None:
    register(lambda task: None)
    added()
    claimer = Claimer(size=0)
    with django_assert_num_queries(0):
        assert claimer.claim() == claimer.config.poll_interval


def test_without_a_lease_nothing_is_claimed_and_nobody_is_asked(register: Register) -> None:
    """Its heartbeats cannot be written, and its claims could: they would be given back at once."""
    register(lambda task: None)
    added("1")
    world = Ticks()
    claimer = Claimer(joined(world), poll_interval=0.7)
    world.ahead += 31
    with CaptureQueriesContext(connection) as queries:
        assert claimer.claim() == 0.7
    assert (claimer.keys(), len(queries)) == ([], 0)
    assert claimer.membership.beat("running", {})
    claimer.claim()
    assert claimer.keys() == ["1"]


def test_a_batch_is_never_larger_than_the_batch_size(register: Register) -> None:
    register(lambda task: None)
    for number in range(10):
        added(str(number))
    claimer = Claimer(size=10, batch_size=4)
    claimer.claim()
    assert len(claimer.keys()) == 4


def test_as_long_as_claims_come_back_full_lanes_are_looked_for_now_and_then_only(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_tasks.worker.lanes.LONGEST_LANES_SECONDS", 20.0)
    monkeypatch.setattr("django_tasks.worker.lanes.LANES_SECONDS", 20.0)
    register(lambda task: None)
    for number in range(5):
        added(str(number))
    claimer = Claimer(joined(world), size=1)
    claimer.claim()
    claimer.finish()
    with CaptureQueriesContext(connection) as without:
        claimer.claim()
    claimer.finish()
    world.ahead += 20
    with CaptureQueriesContext(connection) as looking:
        claimer.claim()
    assert len(looking) == len(without) + 1


def test_what_a_worker_has_slept_for_it_claims_without_a_look(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added("1", when=ahead(5))
    claimer = Claimer(joined(world))
    assert 4 < claimer.claim() <= 5
    world.ahead += 5
    with CaptureQueriesContext(connection) as quick:
        assert claimer.claim() == 0
    assert claimer.keys() == ["1"]
    assert len(quick) == (2 if connection.vendor == "mysql" else 1)


def test_one_that_has_slept_for_more_than_fits_goes_on_when_there_is_room(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim comes back full, and tells nothing of what is due besides."""
    monkeypatch.setattr("django_tasks.worker.lanes.LONGEST_LANES_SECONDS", 3600.0)
    monkeypatch.setattr("django_tasks.worker.lanes.LANES_SECONDS", 3600.0)
    register(lambda task: None)
    for number in range(5):
        added(str(number), when=ahead(5))
    claimer = Claimer(joined(world), size=2)
    assert 4 < claimer.claim() <= 5
    world.ahead += 5
    for left in (3, 1, 0):
        assert claimer.claim() == 0
        claimer.finish()
        assert Task.objects.count() == left
        assert not claimer.claiming.nothing_due


class Standing:
    """A clock that goes only where it is pushed; a thread that waits pushes it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr("django_tasks.worker.execution.pause", self.push)

    def __call__(self) -> float:
        return self.seconds

    def push(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.mark.parametrize(
    ("takes", "lead"), [(0.0, 0.0), (0.003, 0.003), (1.0, LONGEST_LEAD)], ids=str
)
def test_its_claim_is_sent_as_long_before_as_claims_take_and_it_starts_on_time(
    register: Register, monkeypatch: pytest.MonkeyPatch, takes: float, lead: float
) -> None:
    started: list[datetime] = []
    register(lambda task: started.append(clock.now()))
    added("warms up")
    when = ahead(60)
    time = Standing(monkeypatch)
    claimer = Claimer()
    clock: Clock = Clock(ClockReading(ago(0), 0.0), time)
    claimer.membership.clock = clock
    claim = store.claim
    begun: list[datetime] = []

    def slow_claim(*args: Any, **kwargs: Any) -> Any:
        begun.append(clock.now())
        time.push(takes)
        return claim(*args, **kwargs)

    monkeypatch.setattr(store, "claim", slow_claim)
    claimer.claim()
    claimer.finish()
    added("1", when=when)
    time.push(claimer.claim())
    claimer.claim()
    assert claimer.keys() == ["1"]
    claimer.finish()
    assert abs(when - begun[-1] - timedelta(seconds=lead)) < timedelta(microseconds=10)
    assert started[-1] >= when
    assert started[-1] - when <= timedelta(seconds=max(0, takes - lead), microseconds=10)


def test_what_was_claimed_ahead_goes_back_if_its_time_does_not_come(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's clock was set back between the claim and the start."""
    runs: list[Any] = []
    register(runs.append)
    added()
    time = Standing(monkeypatch)
    claimer = Claimer()
    claimer.membership.clock = Clock(ClockReading(ago(0), 0.0), time)
    claimer.claim()
    claimer.membership.clock.set(ClockReading(ago(60), 0.0))
    claimer.finish()
    assert runs == []
    assert time.seconds == 0
    assert (Task.objects.get().status, Task.objects.get().attempts) == (0, 0)


def test_if_that_has_gone_it_looks_at_once_for_something_else(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    register(lambda task: None, "other")
    added("1", when=ahead(5))
    claimer = Claimer(joined(world))
    claimer.claim()
    cancel_task(CODE, "1")
    added("2", "other", when=ahead(4))
    world.ahead += 5
    assert claimer.claim() == 0
    assert claimer.keys() == []
    claimer.claim()
    assert claimer.keys() == ["2"]


def test_a_claim_that_found_less_than_it_wanted_has_the_next_one_look_for_lanes(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    register(lambda task: None, "other")
    added("1")
    claimer = Claimer(joined(world), size=5)
    claimer.claim()
    added("2", "other")
    claimer.claim()
    assert claimer.keys() == ["1", "2"]


def test_claims_are_held_before_they_start(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None)
    added()
    claimer = Claimer()
    held: list[set[int]] = []
    monkeypatch.setattr(
        claimer.hands,
        "submit",
        lambda claims, **_: held.append(claimer.finisher.held_ids(claimer.membership.worker_id)),
    )
    claimer.claim()
    assert held == [{Task.objects.get().pk}]


def test_queues_and_codes_narrow_what_is_claimed(register: Register) -> None:
    register(lambda task: None, queue="mail")
    register(lambda task: None, "push", queue="push")
    register(lambda task: None, "other", queue="mail")
    added("a")
    added("b", "push")
    added("c", "other")
    added("d", queue="push")

    def claimed(**wishes: Any) -> list[str]:
        claimer = Claimer(**wishes)
        claimer.claim()
        keys = sorted(claimer.keys())
        claimer.finisher.give_back(claimer.hands.take_back())
        claimer.finisher.write(claimer.membership.clock.now(), careful=False)
        return keys

    assert claimed() == ["a", "b", "c", "d"]
    assert claimed(queues=("mail",)) == ["a", "c"]
    assert claimed(codes=("push", "other")) == ["b", "c"]
    assert claimed(queues=("push",), codes=(CODE,)) == ["d"]
    assert claimed(queues=("none",)) == []


def test_an_unknown_code_is_left_alone_counted_and_told_once(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    register(lambda task: None)
    for number in range(3):
        added(str(number), "newer")
    added("future", "later", when=ahead())
    claimer = Claimer()
    for _ in range(3):
        claimer.claim()
    assert claimer.keys() == []
    assert claimer.claiming.nothing_due
    (record,) = caplog.records
    assert record.getMessage().startswith("3 tasks of code 'newer' are due")


def test_it_sleeps_until_the_first_task_that_it_serves(register: Register) -> None:
    register(lambda task: None)
    added("1", when=ahead(7))
    added("2", when=ahead(9))
    added("3", "unknown", when=ahead(2))
    claimer = Claimer()
    assert 6 < claimer.claim() <= 7
    assert claimer.claiming.nothing_due


def test_without_any_task_it_sleeps_for_the_poll_interval(register: Register) -> None:
    register(lambda task: None)
    assert Claimer(poll_interval=0.7).claim() == 0.7


def test_when_others_have_taken_what_was_due_it_looks_again_soon(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None)
    added()
    claimer = Claimer()
    monkeypatch.setattr("django_tasks.store.claim.claim", lambda *args, **kwargs: [])
    assert CONTESTED_SECONDS / 2 <= claimer.claim() <= CONTESTED_SECONDS * 1.5


def test_what_somebody_holds_locked_is_looked_for_less_and_less_often(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction may hold a due row for an hour."""
    register(lambda task: None)
    added()
    claimer = Claimer(poll_interval=1.0)
    monkeypatch.setattr("django_tasks.worker.idling.uniform", lambda least, most: most)
    with monkeypatch.context() as locked:
        locked.setattr("django_tasks.store.claim.claim", lambda *args, **kwargs: [])
        pauses = [claimer.claim() for _ in range(20)]
    first = 1.5 * CONTESTED_SECONDS
    assert pauses[:4] == pytest.approx([first, 2 * first, 4 * first, 8 * first])
    assert pauses[4:] == [1.0] * 16
    assert claimer.claim() == 0
    claimer.finish()
    added()
    with monkeypatch.context() as locked:
        locked.setattr("django_tasks.store.claim.claim", lambda *args, **kwargs: [])
        assert claimer.claim() == pytest.approx(first)


@pytest.mark.parametrize("code", [CODE, "other"], ids=["behind it", "elsewhere"])
def test_what_is_due_soon_does_not_wait_for_what_is_locked(
    register: Register, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    register(lambda task: None)
    register(lambda task: None, "other")
    added("locked")
    added("soon", code, when=ahead(0.4))
    claimer = Claimer(poll_interval=30.0)
    monkeypatch.setattr("django_tasks.store.claim.claim", lambda *args, **kwargs: [])
    assert max(claimer.claim() for _ in range(12)) <= 0.4


def test_who_came_in_vain_steps_aside_for_its_peers_until_it_has_had_something(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None)
    added()
    membership = joined()
    for _ in range(9):
        worker_row()
    membership.beat("running", {})
    claimer = Claimer(membership, poll_interval=0.5)
    monkeypatch.setattr("django_tasks.worker.idling.uniform", lambda least, most: most)
    with monkeypatch.context() as others:
        others.setattr("django_tasks.store.claim.claim", lambda *args, **kwargs: [])
        vain = claimer.claim()
    assert vain == pytest.approx(CONTESTED_SECONDS * 1.5 + 9 * ASIDE_SECONDS)
    table().update(when=ahead(60))
    assert claimer.claim() == pytest.approx(60 + 9 * ASIDE_SECONDS, abs=1)
    table().update(when=ahead(-1))
    assert claimer.claim() == 0
    claimer.finish()
    assert claimer.claim() == 0.5


@pytest.mark.parametrize("careful", [False, True])
def test_the_careful_way_claims_the_same(register: Register, careful: bool) -> None:
    register(lambda task: None)
    for number in range(3):
        added(str(number), when=ahead(-10 + number))
    claimer = Claimer(size=2)
    claimer.claim(careful=careful)
    assert claimer.keys() == ["0", "1"]


# --max-tasks


def test_no_more_than_max_tasks_are_ever_claimed(register: Register) -> None:
    register(lambda task: None)
    for number in range(10):
        added(str(number))
    claimer = Claimer(size=3, max_tasks=5)
    for _ in range(4):
        claimer.claim()
        claimer.finish()
    assert claimer.claiming.has_had_enough()
    assert Task.objects.count() == 5


def test_what_was_given_back_unstarted_does_not_count_as_one_of_max_tasks(
    register: Register,
) -> None:
    """``--max-tasks N`` ends after N tasks; a task that never started is none of them."""
    register(lambda task: None)
    for number in range(10):
        added(str(number))
    claimer = Claimer(size=5, max_tasks=5)
    claimer.claim()
    claimer.finisher.give_back(claimer.hands.take_back())
    claimer.finisher.write(claimer.membership.clock.now(), careful=False)
    for _ in range(4):
        claimer.claim()
        claimer.finish()
    assert Task.objects.count() == 5


# Rows that were rescued twice


def suspicious(*numbers: str) -> None:
    for number in numbers:
        if not Task.objects.filter(biz_num=number).exists():
            added(number, when=ahead(-100))
    table(biz_num__in=numbers).update(rescues=2)


def test_suspects_take_one_slot_one_after_the_other_and_hold_up_nobody(register: Register) -> None:
    register(lambda task: None)
    suspicious("s", "t")
    added("a")
    claimer = Claimer(size=4)
    claimer.claim()
    assert claimer.keys() == ["a"]
    claimer.claiming.look_for_suspects()
    for number in ("b", "c"):
        added(number)
        claimer.claim()
    suspects = {"s", "t"}
    assert len(claimer.keys()) == 4
    assert len(suspects & set(claimer.keys())) == 1
    assert claimer.keys()[0] in suspects  # before what waits already
    claimer.finish()
    claimer.claiming.look_for_suspects()
    added("d")
    for _ in range(3):
        claimer.claim()
    assert sorted(claimer.keys())[0] == "d"
    assert len(claimer.keys()) == 2
    claimer.finish()
    assert not Task.objects.exists()


def test_a_suspect_is_claimed_beside_what_runs(register: Register) -> None:
    register(lambda task: None)
    added("long")
    claimer = Claimer(size=2)
    claimer.claim()
    claimer.hands.begin()
    suspicious("s")
    claimer.claiming.look_for_suspects()
    for _ in range(2):
        claimer.claim()
    assert claimer.keys() == ["s"]


def test_as_long_as_one_is_in_hand_no_other_is_claimed(register: Register) -> None:
    register(lambda task: None)
    suspicious("s", "t")
    claimer = Claimer(size=8)
    for number in range(4):
        claimer.claiming.look_for_suspects()
        added(str(number))
        claimer.claim()
    assert len({"s", "t"} & set(claimer.keys())) == 1


def test_a_suspect_takes_the_room_of_another(register: Register) -> None:
    register(lambda task: None)
    added("first")
    added("second")
    claimer = Claimer(size=1)
    suspicious("s")
    claimer.claiming.look_for_suspects()
    claimer.claim()
    claimer.finish()
    claimer.claim()
    assert claimer.keys() == ["s"]


def test_a_worker_with_nothing_else_to_do_finds_a_suspect_at_once(register: Register) -> None:
    register(lambda task: None)
    suspicious("s")
    claimer = Claimer()
    # Once is nothing: others were quicker. Twice is a reason to look.
    assert 0 < claimer.claim() < 1
    assert 0 < claimer.claim() < 1
    assert claimer.claim() == 0
    assert claimer.keys() == ["s"]


def test_locked_rows_have_suspects_looked_for_once_and_then_at_heartbeats(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []

    def has_suspects(*args: Any, **kwargs: Any) -> bool:
        looks.append(args)
        return False

    register(lambda task: None)
    added()
    claimer = Claimer()
    monkeypatch.setattr(suspects, "has_suspects", has_suspects)
    monkeypatch.setattr(store, "claim", lambda *args, **kwargs: [])
    for heartbeats in (1, 2, 3):
        for _ in range(10):
            claimer.claim()
        assert len(looks) == heartbeats
        claimer.claiming.look_for_suspects()


def test_the_next_suspect_comes_when_the_one_before_has_ended(register: Register) -> None:
    register(lambda task: None)
    claimer = Claimer()
    for number in "123":
        suspicious(number)
    found = []
    for _ in range(9):
        claimer.claim()
        found += claimer.keys()
        claimer.finish()
    assert sorted(found) == ["1", "2", "3"]


def test_a_suspect_that_went_away_stops_nobody(register: Register) -> None:
    register(lambda task: None)
    suspicious("s")
    claimer = Claimer()
    claimer.claim()
    cancel_task(CODE, "s")
    added("a")
    for _ in range(2):
        claimer.claim()
    assert claimer.keys() == ["a"]


def test_suspects_that_cannot_be_claimed_keep_nothing_else_from_being_claimed(
    register: Register, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even what is in the same lane; and they are not asked for again at each look."""
    asked: list[Any] = []

    def fails(claimer: Any, lane: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(lane)
        raise DataError("integer out of range")

    register(lambda task: None)
    suspicious("s")
    monkeypatch.setattr(store, "claim_alone", fails)
    claimer = Claimer()
    for number in ("a", "b", "c"):
        added(number)
        claimer.claiming.look_for_suspects()
        claimer.claim()
    assert claimer.keys() == ["a", "b", "c"]
    assert len(asked) == 1
    (record,) = caplog.records
    assert "integer out of range" in record.getMessage()


# Errors that are one lane's own


def test_an_error_of_one_lane_stops_no_other_and_is_said_once_a_try(
    register: Register, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    register(lambda task: None)
    register(lambda task: None, "broken")
    added("1", "broken")
    added("2")
    claim = store.claim

    def fails_for_one(claimer: Any, lane: Any, *args: Any, **kwargs: Any) -> Any:
        if lane.biz_code == "broken":
            raise DataError("integer out of range")
        return claim(claimer, lane, *args, **kwargs)

    monkeypatch.setattr(store, "claim", fails_for_one)
    claimer = Claimer()
    for number in ("3", "4"):
        claimer.claim()
        claimer.finish()
        added(number)
    claimer.claim()
    claimer.finish()
    assert list(Task.objects.values_list("biz_code", flat=True)) == ["broken"]
    # What is due there and cannot be claimed is no reason to look again and again.
    assert claimer.claim() > 0.5
    (record,) = caplog.records
    assert "'broken'" in record.getMessage()
    assert "integer out of range" in record.getMessage()


@pytest.mark.parametrize(
    ("error", "dropped"),
    [(DataError("too long"), []), (AttributeError("of no known kind"), [USING])],
    ids=repr,
)
def test_an_error_of_no_known_kind_may_be_the_sessions_own(
    register: Register, monkeypatch: pytest.MonkeyPatch, error: Exception, dropped: list[str]
) -> None:
    """A connection that answers each ping would be kept for ever, and the lane closed with it."""

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise error

    drops: list[str] = []
    register(lambda task: None)
    added()
    claimer = Claimer()
    monkeypatch.setattr(lane_claims, "drop_connection", drops.append)
    monkeypatch.setattr(store, "claim", fails)
    claimer.claim()
    assert drops == dropped


@pytest.mark.parametrize(
    "error", [DataError("the answer makes no sense"), AttributeError("no known kind")], ids=repr
)
@pytest.mark.parametrize("verb", ["claim", "claim_alone"])
def test_what_was_claimed_by_a_statement_that_failed_after_its_commit_goes_back(
    register: Register, monkeypatch: pytest.MonkeyPatch, verb: str, error: Exception
) -> None:
    """Nobody hears of an error that closes a lane: strays are looked for all the same."""
    register(lambda task: None)
    suspicious("s")
    if verb == "claim":
        table().update(rescues=0)
    membership = joined()
    poller = Poller(config(), membership, Hands(runner(membership)))  # type: ignore[arg-type]
    claim = getattr(store, verb)

    def loses_its_answer(*args: Any, **kwargs: Any) -> Any:
        assert len(claim(*args, **kwargs)) == 1
        raise error

    monkeypatch.setattr(lane_claims, "drop_connection", lambda using: None)
    with monkeypatch.context() as patch:
        patch.setattr(store, verb, loses_its_answer)
        poller._claiming.look_for_suspects()
        for _ in range(3):
            poller.run_once()
    assert [task.claimed_by for task in Task.objects.all()] == [membership.worker_id]
    assert membership.beat("running", {})
    poller._attend_heartbeat()
    assert [task.claimed_by for task in Task.objects.all()] == [None]


def test_an_outage_during_a_claim_is_no_lanes_own(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any, **kwargs: Any) -> Any:
        raise OperationalError("server has gone away")

    register(lambda task: None)
    added()
    claimer = Claimer()
    monkeypatch.setattr(store, "claim", gone)
    with pytest.raises(OperationalError):
        claimer.claim()


def test_a_claim_that_is_always_cut_off_is_halved_and_grows_again(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lane by itself: claims of the others that go well say nothing of it."""
    register(lambda task: None)
    register(lambda task: None, "quick")
    monkeypatch.setattr(errors, "judge_of", lambda using: PostgreSQL(connections[using]))
    error = OperationalError("canceling statement due to statement timeout")
    error.__cause__ = type("Cause", (Exception,), {"sqlstate": "57014"})()
    for number in range(16):
        added(str(number))
    claim, limits = store.claim, []

    def slow(by: Any, lane: Any, now: Any, limit: int, **facts: Any) -> Any:
        if lane.biz_code == CODE:
            limits.append(limit)
            if limit > 4:
                raise error
        return claim(by, lane, now, limit, **facts)

    monkeypatch.setattr(store, "claim", slow)
    claimer = Claimer(size=100, batch_size=16)
    for number in range(3):
        added(str(number), "quick", priority=1)
        if number < 2:
            with pytest.raises(OperationalError):
                claimer.claim()
        else:
            claimer.claim()
    assert limits[:3] == [16, 8, 4]
    assert sorted(claimer.keys(), key=int) == sorted(["0", "1", "2", *"0123"], key=int)
    with pytest.raises(OperationalError):
        claimer.claim()
    assert limits[3:] == [8]
    claimer.claim()
    assert limits[3:] == [8, 4]
