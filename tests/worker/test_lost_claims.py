"""Claims that got lost inside a worker, and a poller that hangs: no row stays held for ever."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError

from django_tasks import signals
from django_tasks.host.clocks import utc_now
from django_tasks.models import Task
from django_tasks.store import gates
from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.status import Status
from django_tasks.worker import poller
from django_tasks.worker.counting import Counts
from django_tasks.worker.executor import Executor, Item
from django_tasks.worker.heartbeat import Heartbeat, Report
from django_tasks.worker.poller import Poller
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import Ticks, added, config, heard, joined, runner, stored
from tests.worker.test_poller import Cycles, failing_once

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


def waiting() -> list[tuple[str, int | None]]:
    """Numbers and owners of the rows that wait, by number."""
    pending = Task.objects.filter(status=Status.PENDING)
    return list(pending.order_by("biz_num").values_list("biz_num", "claimed_by"))


# Claims that are nowhere


def with_claims(register: Register, world: Ticks, numbers: str) -> Cycles:
    """A poller that has claimed these tasks, none of which has begun."""
    register(lambda task: None)
    for number in numbers:
        added(number)
    cycles = Cycles(world)
    cycles.run()
    return cycles


def test_a_claim_that_is_found_nowhere_is_given_back_at_the_second_heartbeat(
    register: Register, world: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    cycles = with_claims(register, world, "12")
    lost = cycles.hands.waiting.popleft()
    cycles.hands.size = 0
    cycles.beat()
    assert waiting() == []
    cycles.beat()
    cycles.run()
    assert waiting() == [(lost.biz_num, None)]
    assert "Claims on default were lost inside this worker and are given back: job/1" in caplog.text
    cycles.hands.size = 2
    cycles.run()
    cycles.hands.work()
    cycles.run()
    assert not Task.objects.exists()


@contextmanager
def on_its_way(cycles: Cycles) -> Iterator[None]:
    """Have the only claim be nowhere meanwhile."""
    (claim,) = cycles.hands.waiting
    cycles.hands.waiting.clear()
    yield
    cycles.hands.waiting.append(claim)


def test_a_claim_that_is_on_its_way_for_an_instant_is_not_lost(
    register: Register, world: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    cycles = with_claims(register, world, "1")
    for _ in range(3):
        with on_its_way(cycles):
            cycles.beat()
        cycles.beat()
    assert stored().status == Status.RUNNING
    assert "lost inside" not in caplog.text


def test_what_waits_runs_or_has_ended_is_not_lost(
    register: Register, world: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    cycles = with_claims(register, world, "123")
    cycles.hands.begin(2)
    for _ in range(4):
        cycles.beat()
    assert Task.objects.filter(status=Status.RUNNING).count() == 3
    assert "lost inside" not in caplog.text


def test_an_error_after_the_look_makes_no_second_look_of_the_same_heartbeat(
    register: Register,
    world: Ticks,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that follows a heartbeat is repeated after an error at once, not a heartbeat later."""
    cycles = with_claims(register, world, "1")
    failing_once(monkeypatch, poller, "give_back_strays", after=False)
    cycles.poller.unsure()
    with on_its_way(cycles):
        with pytest.raises(OperationalError):
            cycles.beat()
        cycles.run()
    cycles.beat()
    assert stored().status == Status.RUNNING
    assert "lost inside" not in caplog.text


def test_claims_that_go_back_are_kept_where_the_refund_of_their_rate_fails(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None, rate_limit="100/m")
    added()
    cycles = Cycles(world)
    cycles.run()
    assert cycles.hands.has_waiting()
    failing_once(monkeypatch, gates, "refund", after=False)
    cycles.poller.quieten()
    with pytest.raises(OperationalError):
        cycles.run()
    cycles.run()
    assert waiting() == [("1", None)]


# A poller that hangs


class Hanging:
    """A poller before real threads, of which one is busy, so that a claim waits in the buffer."""

    def __init__(self, world: Ticks) -> None:
        self.membership = joined(world)
        self.entered, self.let_go = Event(), Event()
        self.executor = Executor(1, self, lambda: None)
        self.poller = Poller(config(threads=1), self.membership, self.executor)
        self._run = runner(self.membership)

    def __call__(self, item: Item, take: Any = None) -> list[Ended]:
        self.entered.set()
        assert self.let_go.wait(DEADLINE)
        return [self._run(claimed) for claimed in item]

    def crashed(self, claimed: Claimed) -> Ended:
        raise AssertionError(f"{claimed} crashed")

    def close(self) -> None:
        self.let_go.set()
        self.executor.close()
        self.executor.join()


@pytest.fixture
def hanging(register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    ran: list[str] = []
    register(lambda task: ran.append(task.biz_num))
    monkeypatch.setattr(Executor, "room", lambda executor, most: 2 - executor._in_hand)
    hanging = Hanging(world)
    for number in "12":
        added(number)
    hanging.executor.start()
    hanging.poller.run_once()
    assert hanging.entered.wait(DEADLINE)
    yield hanging
    hanging.close()
    assert ran == ["1"]


def test_what_waits_unstarted_is_given_back_in_place_of_a_poller_that_hangs(
    hanging: Hanging,
) -> None:
    assert waiting() == []
    assert hanging.poller.relieve() == 1
    assert waiting() == [("2", None)]
    assert hanging.poller.relieve() == 0


def test_and_when_it_goes_on_it_starts_nothing_of_it_and_calls_nothing_lost(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging.poller.relieve()
    monkeypatch.setattr(Executor, "room", lambda executor, most: 0)
    with heard(signals.task_lost) as lost:
        hanging.let_go.set()
        eventually(lambda: len(hanging.executor._ended) == 2, "the run has ended")
        hanging.poller.run_once()
    assert waiting() == [("2", None)]
    assert not Task.objects.filter(biz_num="1").exists()
    assert lost == []
    assert hanging.executor.is_idle()


def down(*args: Any, **kwargs: Any) -> None:
    raise OperationalError("gone away")


def test_what_could_not_be_given_back_then_is_written_by_the_poller_itself(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("django_tasks.worker.poller.finish", down)
        with pytest.raises(OperationalError):
            hanging.poller.relieve()
    assert waiting() == []
    monkeypatch.setattr(Executor, "room", lambda executor, most: 0)
    hanging.poller.run_once()
    assert waiting() == [("2", None)]
    assert hanging.poller.relieve() == 1  # once more, and it matches nothing
    assert waiting() == [("2", None)]


def test_or_at_the_next_heartbeat_while_it_still_hangs(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("django_tasks.worker.poller.finish", down)
        with pytest.raises(OperationalError):
            hanging.poller.relieve()
    assert hanging.poller.relieve() == 1
    assert waiting() == [("2", None)]
    assert hanging.poller.relieve() == 0


class Guarded:
    """A poller that has been in its cycle for so long."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.relieved = 0
        self.counts = Counts(utc_now)

    def report(self) -> Report:
        return Report("running", {})

    def seconds_in_cycle(self) -> float:
        return self.seconds

    def relieve(self) -> int:
        self.relieved += 1
        return 1


def test_a_heartbeat_says_once_that_the_poller_hangs_and_gives_back_each_time(
    world: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    wishes, guarded = config(lease=30.0), Guarded()
    heartbeat = Heartbeat(wishes, joined(world), guarded, lambda: None, lambda line: line())
    heartbeat.joined = True
    for seconds, relieved, said in ((30, 0, 0), (31, 1, 1), (41, 2, 1), (0, 2, 1), (31, 3, 2)):
        guarded.seconds = seconds
        world.ahead += wishes.heartbeat_interval
        heartbeat.cycle()
        assert guarded.relieved == relieved
        assert caplog.text.count("has not finished a cycle for") == said


def test_a_poller_tells_how_long_its_cycle_has_taken(
    register: Register, world: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles, seen = Cycles(world), []
    monkeypatch.setattr(
        cycles.poller._recurring, "keep_up", lambda: seen.append(cycles.poller.seconds_in_cycle())
    )
    assert cycles.poller.seconds_in_cycle() == 0
    cycles.run()
    assert seen[0] > 0
    assert cycles.poller.seconds_in_cycle() == 0
