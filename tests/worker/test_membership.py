"""A worker among workers: its lease, and when it may judge the others."""

import os
import socket
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from django.db import DatabaseError, DataError, OperationalError
from django.db.models import TextField, Value

from django_tasks import signals
from django_tasks.client.control import cancel_task, pause_task
from django_tasks.client.queries import get_runs
from django_tasks.models import Task, WorkerRow
from django_tasks.store import rescue as rescue_store
from django_tasks.store import runs, workers
from django_tasks.store.workers import Peer
from django_tasks.values.status import Status
from django_tasks.worker import membership as membership_module
from django_tasks.worker import rescuer as rescuer_module
from django_tasks.worker.membership import CLOCK_DRIFT, Living, Membership, RollCall, View
from django_tasks.worker.rescuer import Rescuer, give_back_strays
from tests.factories import NOW, table
from tests.worker.conftest import Register
from tests.worker.parts import (
    USING,
    StillTicks,
    Ticks,
    added,
    claimed,
    config,
    heard,
    joined,
    row,
    stored,
    worker_row,
)

pytestmark = pytest.mark.django_db

LEASE = 30.0


def beat(membership: Membership) -> bool:
    return membership.beat("running", {"done": 3})


_rescuers: WeakKeyDictionary[Membership, Rescuer] = WeakKeyDictionary()


def rescue(membership: Membership, *, thorough: bool = True) -> int:
    """All the pieces of a rescue; how many rows were freed."""
    rescuer = _rescuers.setdefault(membership, Rescuer(membership, USING))
    rescuer.look(thorough=thorough)
    freed = 0
    while rescuer.has_more():
        freed += rescuer.rescue_some()
    return freed


def beating(membership: Membership, world: Ticks, seconds: float, every: float = 10.0) -> None:
    """Let so much time pass with regular heartbeats."""
    end = world.ahead + seconds
    while world.ahead < end:
        world.ahead = min(end, world.ahead + every)
        assert beat(membership)


# The row


def test_joining_enters_a_row_that_says_what_the_worker_is() -> None:
    membership = Membership(config(threads=3, lease=12, queues=("mail", "push")))
    worker_id = membership.join()
    found = WorkerRow.objects.get()
    assert found.pk == worker_id == membership.worker_id
    assert (found.threads, found.lease, found.queues) == (3, 12, ["mail", "push"])
    assert (found.name, found.state) == (membership.name, "running")
    assert found.heartbeat == found.started


def test_before_it_has_joined_it_is_nobody_and_its_lease_is_over() -> None:
    membership = Membership(config())
    assert membership.worker_id == 0
    assert not membership.is_valid()
    assert (membership.living(), membership.dead(), membership.rank()) == ((), [], 0)
    assert membership.seconds_to_judge() > 100


def test_a_host_with_a_very_long_name_leaves_what_tells_its_workers_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 300)
    first, second = joined(), joined()
    names = [found.name for found in WorkerRow.objects.order_by("id")]
    assert names == [first.name, second.name]
    assert [len(name) for name in names] == [200, 200]
    assert names[0].endswith(f":{os.getpid()}:{names[0][-6:]}")
    assert names[0] != names[1]


def test_joining_again_is_a_new_worker() -> None:
    membership = joined()
    first = membership.worker_id
    assert membership.join() > first
    assert WorkerRow.objects.count() == 2


def test_a_heartbeat_writes_time_state_and_counters(world: Ticks) -> None:
    membership = joined(world)
    before = WorkerRow.objects.get().heartbeat
    world.ahead += 10
    assert membership.beat("stopping", {"done": 3})
    found = WorkerRow.objects.get()
    assert (found.state, found.counters) == ("stopping", {"done": 3})
    assert 10 <= (found.heartbeat - before).total_seconds() < 20


def test_a_heartbeat_is_wanted_every_third_of_the_lease(world: Ticks) -> None:
    membership = joined(world)
    world.ahead += 10
    assert membership.seconds_to_beat() <= 0
    beat(membership)
    assert 9 < membership.seconds_to_beat() <= 10


def test_a_young_worker_looks_around_more_often() -> None:
    ticks = StillTicks()
    membership = joined(ticks)
    waits = []
    for _ in range(5):
        waits.append(membership.seconds_to_beat())
        ticks.now += waits[-1]
        beat(membership)
    assert waits == pytest.approx([0.25, 0.75, 3.0, 10.0, 10.0])


def test_a_worker_whose_row_has_gone_learns_that_it_was_taken_for_dead() -> None:
    membership = joined()
    WorkerRow.objects.all().delete()
    assert not beat(membership)


def test_leaving_removes_the_row_of_this_worker_only() -> None:
    membership, other = joined(), joined()
    membership.leave()
    assert WorkerRow.objects.get().pk == other.worker_id
    membership.leave()


# The lease


def test_the_lease_ends_when_no_heartbeat_arrived_for_its_whole_length(world: Ticks) -> None:
    membership = joined(world)
    world.ahead += LEASE - 0.5
    assert membership.is_valid()
    world.ahead += 0.6
    assert not membership.is_valid()
    beat(membership)
    assert membership.is_valid()


def test_the_lease_counts_from_before_the_heartbeat_was_sent(
    world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership = joined(world)
    roll_call = workers.roll_call

    def slow(**kwargs: Any) -> Any:
        world.ahead += 20
        return roll_call(**kwargs)

    monkeypatch.setattr(workers, "roll_call", slow)
    beat(membership)
    world.ahead += LEASE - 19.9
    assert not membership.is_valid()


def test_a_heartbeat_that_failed_renews_nothing(
    world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(**kwargs: Any) -> Any:
        raise OperationalError("gone away")

    membership = joined(world)
    world.ahead += LEASE + 1
    monkeypatch.setattr(workers, "roll_call", down)
    with pytest.raises(OperationalError):
        beat(membership)
    assert not membership.is_valid()


def test_nobody_takes_a_worker_for_dead_that_still_believes_in_itself(world: Ticks) -> None:
    silent, judge = joined(world), joined(world)
    beliefs = []
    for _ in range(40):
        world.ahead += 1
        assert beat(judge)
        beliefs.append((silent.is_valid(), silent.worker_id in {each.id for each in judge.dead()}))
    assert (True, True) not in beliefs
    assert beliefs[0] == (True, False)
    assert beliefs[-1] == (False, True)


# The others


def test_the_living_and_the_rank_go_by_the_clock() -> None:
    old, dead, slow = worker_row(age=5), worker_row(age=31), worker_row(age=31, lease=60)
    membership = joined()
    younger = worker_row()
    assert beat(membership)
    assert dead.pk not in [each.id for each in membership.living()]
    assert [each.id for each in membership.living()] == [
        old.pk,
        slow.pk,
        membership.worker_id,
        younger.pk,
    ]
    assert membership.rank() == 2


def test_they_are_counted_once_a_view_until_one_of_them_looks_dead(
    world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three questions a claim, each of which went over all workers."""
    counts: list[int] = []
    looks_alive = Peer.looks_alive

    def counting(peer: Peer, now: datetime) -> bool:
        counts.append(peer.id)
        return looks_alive(peer, now)

    monkeypatch.setattr(Peer, "looks_alive", counting)
    brief, later = worker_row(lease=10), worker_row(lease=20)
    membership = joined(world)

    def found() -> list[int]:
        membership.rank(), membership.is_drawn(0.5)
        return [each.id for each in membership.living()]

    assert beat(membership)
    assert found() == found() == [brief.pk, later.pk, membership.worker_id]
    assert (len(counts), membership.rank()) == (3, 2)
    world.ahead += 11
    assert found() == found() == [later.pk, membership.worker_id]
    assert (len(counts), membership.rank()) == (6, 1)
    world.ahead -= 5  # a clock that was set back
    assert found() == [brief.pk, later.pk, membership.worker_id]
    assert beat(membership)
    assert found() == found() == [brief.pk, later.pk, membership.worker_id]
    assert len(counts) == 12
    old = membership.worker_id
    membership.join()
    assert (found(), membership.rank()) == ([brief.pk, later.pk, old], 3)


def test_a_count_holds_from_the_moment_at_which_it_was_made_to_its_end() -> None:
    view, second = joined().view, timedelta(seconds=1)
    counted = Living(view, 7, NOW, NOW + second, (), 0)
    moments = [NOW - second, NOW, NOW + second, NOW + 2 * second]
    assert [counted.are_for(view, 7, now) for now in moments] == [False, True, True, False]
    assert not counted.are_for(view, 8, NOW)


def test_every_lot_is_for_two_of_the_living() -> None:
    workers = [joined() for _ in range(5)]
    for worker in workers:
        beat(worker)
    drawn = [[worker.is_drawn(lot / 16) for worker in workers] for lot in range(16)]
    assert [sum(each) for each in drawn] == [2] * 16
    assert all(any(each) for each in zip(*drawn, strict=True))


def test_a_worker_that_knows_nobody_yet_is_always_meant() -> None:
    assert joined().is_drawn(0.99)


def test_dead_is_who_was_watched_for_its_whole_lease_and_sent_nothing(world: Ticks) -> None:
    membership = joined(world)
    silent, patient = worker_row(age=9000), worker_row(age=9000, lease=3 * LEASE)
    alive = joined(world)
    beat(membership)
    for _ in range(3):
        assert membership.dead() == []
        world.ahead += LEASE / 3
        beat(alive)
        beat(membership)
    world.ahead += 1
    beat(membership)
    assert [each.id for each in membership.dead()] == [silent.pk]
    assert patient.pk in {each.id for each in membership.view.peers}


def test_a_refused_heartbeat_judges_nobody(world: Ticks) -> None:
    """After an outage a worker whose row has gone is the first to come back."""
    judge, other = joined(world), joined(world)
    for _ in range(4):
        world.ahead += LEASE / 3
        assert beat(other)
        assert beat(judge)
    assert judge.may_rescue()
    WorkerRow.objects.filter(pk=judge.worker_id).delete()
    world.ahead += 2 * LEASE
    assert not beat(judge)
    assert not judge.may_rescue()
    assert judge.dead() == []
    judge.join()
    assert beat(other)
    assert beat(judge)
    assert judge.dead() == []


def test_the_first_heartbeat_after_an_outage_comes_while_the_rescuer_looks(
    world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, other = joined(world), joined(world)
    for _ in range(4):
        world.ahead += LEASE / 3
        assert beat(other)
        assert beat(judge)
    may_rescue = judge.may_rescue

    def asked_before_the_outage() -> bool:
        answer = may_rescue()
        world.ahead += 2 * LEASE
        assert beat(judge)
        return answer

    monkeypatch.setattr(judge, "may_rescue", asked_before_the_outage)
    rescuer = Rescuer(judge, USING)
    rescuer.look(thorough=False)
    while rescuer.has_more():
        rescuer.rescue_some()
    assert beat(other)


@pytest.fixture
def jumps(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """Seconds by which the database's clock has jumped, besides going on as time does."""
    roll_call, jumps = workers.roll_call, Ticks()

    def shifted(**kwargs: Any) -> Any:
        reading, peers = roll_call(**kwargs)
        return replace(reading, utc=reading.utc + timedelta(seconds=jumps.ahead)), peers

    monkeypatch.setattr(workers, "roll_call", shifted)
    return jumps


def watched(world: Ticks) -> tuple[Membership, Membership]:
    """A judge that looks every ten seconds, and another that sent its last heartbeat seven seconds
    before the last look."""
    judge, other = joined(world), joined(world)
    beating(judge, world, LEASE + 1)
    world.ahead += 3
    beat(other)
    world.ahead += 7
    beat(judge)
    return judge, other


def test_a_lease_ends_when_it_ends_and_not_when_somebody_looks(world: Ticks) -> None:
    judge, other = watched(world)
    beating(judge, world, 20)
    assert judge.dead() == []
    assert LEASE - 7 - 20 < judge.seconds_to_judge() < LEASE - 7 - 20 + 0.2 < 10
    world.ahead += judge.seconds_to_judge() + 0.01
    assert not other.is_valid()
    beat(judge)
    assert [each.id for each in judge.dead()] == [other.worker_id]
    # It was judged by this look; what becomes of it is no reason to hurry any more.
    assert judge.seconds_to_judge() > 100


@pytest.mark.parametrize("jump", [-3600.0, -5.0, -0.5, 0.5, 5.0, 3600.0])
@pytest.mark.parametrize("early", [True, False])
def test_a_jump_of_the_databases_clock_makes_nobody_dead_sooner(
    world: Ticks, jumps: Ticks, jump: float, early: bool
) -> None:
    judge, other = joined(world), joined(world)
    beating(judge, world, LEASE + 1)
    world.ahead += 3
    jumps.ahead += jump if early else 0
    beat(other)
    world.ahead += 7
    jumps.ahead += 0 if early else jump
    beat(judge)
    beating(judge, world, LEASE - 0.5)
    assert judge.dead() == []
    world.ahead += 1
    beat(judge)
    assert [each.id for each in judge.dead()] == [other.worker_id]


def test_clocks_that_run_a_little_apart_are_compared(world: Ticks, jumps: Ticks) -> None:
    judge, other = joined(world), joined(world)
    beating(judge, world, LEASE + 1)
    world.ahead += 3
    beat(other)
    world.ahead += 17
    jumps.ahead += 20 * CLOCK_DRIFT / 2
    beat(judge)
    assert judge.seconds_to_judge() < LEASE - 17 + 1


def test_clocks_of_several_nodes_are_not_compared(
    world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership_module, "share_a_clock", lambda **kwargs: False)
    judge, _ = watched(world)
    assert LEASE - 0.5 < judge.seconds_to_judge() < LEASE + 0.5


def test_nobody_is_taken_for_dead_that_still_believes_in_itself_whenever_it_beat(
    world: Ticks,
) -> None:
    judge = joined(world)
    beating(judge, world, LEASE + 1)
    others = [joined(world) for _ in range(3)]
    for tenths in range(600):
        world.ahead += 0.1
        for place, other in enumerate(others):
            if tenths in (13 + 31 * place, 47 + 29 * place):
                beat(other)
        if tenths % 97 == 0 or judge.seconds_to_judge() <= 0:
            beat(judge)
        dead = {each.id for each in judge.dead()}
        assert not [other for other in others if other.is_valid() and other.worker_id in dead]
    assert len(dead) == 3


def test_only_the_oldest_look_at_the_moment_when_a_lease_ends(world: Ticks) -> None:
    crowd = [joined(world) for _ in range(5)]
    for member in crowd:
        beat(member)
    hurried = [member.seconds_to_judge() < 2 * LEASE for member in crowd]
    assert hurried == [True, True, True, False, False]


def test_a_lease_that_ends_at_the_moment_of_a_look_is_no_reason_for_another() -> None:
    """Nobody is dead before it is over, and the next look is a heartbeat."""
    membership = joined()
    then = datetime(2030, 1, 1, tzinfo=timezone.utc)
    peer = Peer(membership.worker_id + 1, 0, then, LEASE)
    end = LEASE * (1 + CLOCK_DRIFT)
    for moment, ends in ((end - 0.5, end), (end, inf)):
        look = RollCall(then, moment, moment)
        membership.view = View(1, (peer,), {peer.id: (0, 0.0)}, look, may_judge=True)
        assert membership._next_judgement(membership.view) == ends
        assert membership.dead() == []


def test_those_who_are_dead_themselves_look_at_nothing(world: Ticks) -> None:
    dead = [joined(world) for _ in range(4)]
    judge = joined(world)
    for seconds in (0, 10, 9):
        world.ahead += seconds
        beat(judge)
    assert len(judge.living()) == 1 + len(dead)
    assert 10 < judge.seconds_to_judge() < 12


def test_an_error_before_somebody_was_rescued_leaves_it_to_be_done(
    world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, peer = watched(world)
    added()
    claimed(peer.worker_id)
    rescuer = Rescuer(judge, USING)
    beating(judge, world, judge.seconds_to_judge() + 0.01)
    rescuer.look(thorough=False)
    for module, name in (
        (workers, "fence"),
        (workers, "orphaning_owners"),
        (rescue_store, "rescue"),
    ):
        assert stored().claimed_by == peer.worker_id
        with monkeypatch.context() as patch:
            patch.setattr(module, name, raising)
            with pytest.raises(OperationalError):
                rescuer.rescue_some()
        rescuer.rescue_some()
    assert stored().claimed_by is None


def raising(*args: Any, **kwargs: Any) -> None:
    raise OperationalError("server has gone away")


def test_a_database_that_hung_leaves_a_gap(world: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats meanwhile were answered in any order: the others may have had no chance."""
    judge = joined(world)
    beating(judge, world, 2 * LEASE)
    roll_call = workers.roll_call

    def hanging(**kwargs: Any) -> Any:
        world.ahead += 21
        return roll_call(**kwargs)

    world.ahead += 10
    with monkeypatch.context() as patch:
        patch.setattr(workers, "roll_call", hanging)
        beat(judge)
    assert not judge.may_rescue()


def test_a_worker_never_counts_itself_among_the_dead(world: Ticks) -> None:
    membership = joined(world)
    beat(membership)
    world.ahead += 10 * LEASE
    assert membership.dead() == []


# When to judge


def test_a_newcomer_judges_nobody_for_a_whole_lease(world: Ticks) -> None:
    membership = joined(world)
    assert not membership.may_rescue()
    beating(membership, world, LEASE - 1)
    assert not membership.may_rescue()
    beating(membership, world, 2)
    assert membership.may_rescue()


def test_a_gap_of_more_than_a_lease_makes_a_newcomer_of_it(world: Ticks) -> None:
    membership = joined(world)
    beating(membership, world, 2 * LEASE)
    world.ahead += LEASE + 1
    beat(membership)
    assert not membership.may_rescue()
    beating(membership, world, LEASE - 1)
    assert not membership.may_rescue()
    beating(membership, world, 2)
    assert membership.may_rescue()


def test_after_a_gap_shorter_than_the_lease_nobody_is_taken_for_dead_either(
    world: Ticks,
) -> None:
    """The database is away for nine tenths of a lease. Who beat a third of a lease before that
    looks dead when it is back, has no chance to have beaten since, and must not be judged."""
    judge, other = joined(world), joined(world)
    beating(judge, world, 2 * LEASE)
    beat(other)
    beat(judge)
    world.ahead += LEASE / 3 - 1
    beat(judge)
    world.ahead += LEASE * 0.9
    beat(judge)
    assert not judge.may_rescue()
    assert judge.dead() == []
    judge.view = judge.view._replace(may_judge=True)
    assert other.worker_id in {each.id for each in judge.dead()}


def test_a_worker_that_was_taken_for_dead_judges_nobody_until_its_next_life_is_old(
    world: Ticks,
) -> None:
    judge, other = joined(world), joined(world)
    beating(judge, world, 2 * LEASE)
    assert other.worker_id in {each.id for each in judge.dead()}
    WorkerRow.objects.filter(pk=judge.worker_id).delete()
    assert not beat(judge)
    assert not judge.may_rescue()
    assert judge.dead() == []


def test_nothing_is_rescued_before_it_may_judge(world: Ticks) -> None:
    dead = worker_row(age=1000, lease=1)
    added()
    claimed(dead.pk)
    membership = joined(world)
    beating(membership, world, LEASE - 1)
    assert rescue(membership) == 0
    assert stored().claimed_by == dead.pk
    assert WorkerRow.objects.filter(pk=dead.pk).exists()


# What a judge does


@pytest.fixture
def judge(world: Ticks) -> Membership:
    membership = joined(world)
    beating(membership, world, LEASE + 1)
    return membership


def rescued(judge: Membership, world: Ticks) -> int:
    """The number of rows freed once everybody was watched for a whole lease."""
    beat(judge)
    beating(judge, world, LEASE + 1)
    return rescue(judge)


def test_a_dead_workers_claims_are_freed_and_its_row_goes(judge: Membership, world: Ticks) -> None:
    dead = worker_row(age=1000)
    for number in range(3):
        added(str(number))
    claimed(dead.pk, limit=3)
    cancel_task("job", "1")
    pause_task("job", "2")
    with heard(signals.task_rescued) as told:
        assert rescued(judge, world) == 3
    assert row("1") is None
    assert (stored("0").status, stored("0").rescues, stored("0").attempts) == (0, 1, 0)
    assert (stored("2").status, stored("2").rescues) == (Status.PAUSED, 1)
    assert {task.claimed_by for task in Task.objects.all()} == {None}
    assert not WorkerRow.objects.filter(pk=dead.pk).exists()
    (message,) = told
    assert (message["worker_id"], message["count"]) == (dead.pk, 3)
    assert message["tasks"] == ["job/0", "job/1", "job/2"]
    assert rescued(judge, world) == 0


def test_a_living_workers_claims_are_left_alone(judge: Membership, world: Ticks) -> None:
    living = joined(world)
    added()
    claimed(living.worker_id)
    for _ in range(10):
        world.ahead += LEASE / 3
        beat(living)
        beat(judge)
        assert rescue(judge) == 0
    assert stored().claimed_by == living.worker_id


def test_claims_of_a_worker_that_has_no_row_any_more_are_freed_at_once(judge: Membership) -> None:
    added()
    claimed(judge.worker_id + 1000)
    assert rescue(judge) == 1
    assert stored().claimed_by is None


def test_orphans_are_looked_for_when_a_worker_has_gone_and_when_asked_to(
    judge: Membership, world: Ticks
) -> None:
    gone = worker_row()
    beat(judge)
    added()
    claimed(gone.pk)
    assert rescue(judge, thorough=False) == 0
    gone.delete()
    beat(judge)
    assert rescue(judge, thorough=False) == 1
    claimed(judge.worker_id + 1000)
    assert rescue(judge, thorough=False) == 0
    assert rescue(judge, thorough=True) == 1


def test_a_history_that_takes_no_line_keeps_nobody_from_a_rescue(
    judge: Membership,
    world: Ticks,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It failed each cycle of all workers, until a heartbeat had them look again."""

    def refuse(dialect: Any, lines: Any) -> None:
        if lines:
            raise DatabaseError("permission denied for table t_task_run")

    monkeypatch.setattr(runs, "write", refuse)
    dead = worker_row(lease=1)
    added()
    claimed(dead.pk)
    beating(judge, world, 2 * LEASE)
    assert rescue(judge) == 1
    assert stored().status == Status.PENDING
    assert "permission denied" in caplog.text


@pytest.mark.parametrize(
    ("error", "dropped"),
    [(DataError("invalid byte"), set()), (DatabaseError("of no known kind"), {USING})],
    ids=repr,
)
def test_a_row_that_cannot_be_freed_holds_up_no_other_and_is_said_once(
    judge: Membership,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    dropped: set[str],
) -> None:
    """Its piece was the first again and again, for as long as the worker lived."""
    free = rescue_store.rescue
    drops: list[str] = []
    monkeypatch.setattr(rescuer_module, "WORKERS_AT_ONCE", 2)
    monkeypatch.setattr(rescuer_module, "drop_connection", drops.append)
    owners = [judge.worker_id + 1000 + number for number in range(5)]
    for number, owner in enumerate(owners):
        added(str(number))
        claimed(owner)

    def refuse(asked: Any, *args: Any, **kwargs: Any) -> Any:
        if owners[0] in asked:
            raise error
        return free(asked, *args, **kwargs)

    monkeypatch.setattr(rescue_store, "rescue", refuse)
    rescuer = Rescuer(judge, USING)
    for freed in (4, 0):
        rescuer.look(thorough=True)
        pieces = [rescuer.rescue_some() for _ in range(12)]
        assert sum(pieces) == freed
        assert not rescuer.has_more()
    found = Task.objects.filter(status=Status.RUNNING).values_list("claimed_by", flat=True)
    assert list(found) == [owners[0]]
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert f"The tasks of worker {owners[0]} on default, which is dead" in record.getMessage()
    assert set(drops) == dropped
    monkeypatch.setattr(rescue_store, "rescue", free)
    assert rescue(judge, thorough=True) == 1


def test_a_dead_worker_that_beats_once_more_is_not_fenced(judge: Membership, world: Ticks) -> None:
    late = joined(world)
    added()
    claimed(late.worker_id)
    beat(judge)
    beating(judge, world, LEASE + 1)
    assert [each.id for each in judge.dead()] == [late.worker_id]
    beat(late)
    assert rescue(judge) == 0
    assert stored().claimed_by == late.worker_id


def test_a_death_beside_others_never_counts_as_an_attempt(
    judge: Membership, world: Ticks, register: Register
) -> None:
    register(lambda task: None, max_attempts=1)
    for expected in (1, 2):
        dead = worker_row(age=1000)
        added() if expected == 1 else None
        claimed(dead.pk)
        rescued(judge, world)
        assert (stored().status, stored().attempts, stored().rescues) == (0, 0, expected)


def test_a_death_alone_counts_and_the_last_one_is_the_end(
    judge: Membership, world: Ticks, register: Register
) -> None:
    register(lambda task: None, max_attempts=2)
    added()
    with heard(signals.task_failed) as failed:
        for expected in (1, 2):
            dead = worker_row(age=1000)
            table().update(status=1, claimed_by=dead.pk, rescues=2)
            assert failed == []
            rescued(judge, world)
            assert (stored().attempts, stored().rescues) == (expected, 2)
    assert stored().status == Status.FAILED
    assert "died" in stored().last_error
    (one,) = failed
    assert one.keys() == {"sender", "task", "exception", "error", "using"}
    assert (str(one["task"]), one["sender"], one["exception"]) == ("job/1", None, None)
    assert one["error"] == stored().last_error
    run, before = get_runs("job", "1")
    assert (run.outcome, run.worker, run.error) == ("failed", f"#{dead.pk}", stored().last_error)
    assert (before.outcome, before.error) == ("rescued", "The worker died while it had this task.")


@pytest.mark.parametrize(
    ("allowed", "options", "status"),
    [
        (2, '{"max_attempts": 1}', Status.FAILED),
        (1, '{"max_attempts": 3}', Status.PENDING),
        (1, None, Status.FAILED),
        (1, "never heard of", Status.FAILED),
        (None, '{"max_attempts": 1}', Status.FAILED),
        (None, None, Status.PENDING),
    ],
)
def test_how_many_deaths_a_row_may_cause_it_may_say_itself(
    judge: Membership,
    world: Ticks,
    register: Register,
    allowed: int | None,
    options: str | None,
    status: Status,
) -> None:
    """None: the handler is unknown to the rescuer."""
    if allowed is not None:
        register(lambda task: None, max_attempts=allowed)
    added()
    dead = worker_row(age=1000)
    written = Value(options, output_field=TextField())  # letter for letter, broken ones too
    table().update(status=1, claimed_by=dead.pk, rescues=2, options=written)
    rescued(judge, world)
    assert stored().status == status


def test_receivers_that_raise_do_not_stop_a_rescue(
    judge: Membership, world: Ticks, register: Register
) -> None:
    def receive(**_: Any) -> None:
        raise RuntimeError("receiver")

    register(lambda task: None, max_attempts=1)
    for number in range(2):
        dead = worker_row(age=1000)
        added(str(number))
        claimed(dead.pk)
    table().update(rescues=2)
    for signal in (signals.task_failed, signals.task_rescued):
        signal.connect(receive)
    try:
        assert rescued(judge, world) == 2
    finally:
        for signal in (signals.task_failed, signals.task_rescued):
            signal.disconnect(receive)
    assert {task.status for task in Task.objects.all()} == {Status.FAILED}


# What is ours without our knowing


def test_strays_are_given_back_as_they_were_and_the_held_stay(judge: Membership) -> None:
    for number in range(4):
        added(str(number))
    claims = claimed(judge.worker_id, limit=4)
    held = {each.id for each in claims if each.biz_num == "0"}
    cancel_task("job", "2")
    pause_task("job", "3")
    assert give_back_strays(judge, held, using=USING) == 3
    assert stored("0").claimed_by == judge.worker_id
    assert (stored("1").status, stored("1").attempts, stored("1").rescues) == (0, 0, 0)
    assert row("2") is None
    assert stored("3").status == Status.PAUSED
