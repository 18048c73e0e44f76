"""The product with one guard removed is caught; with all of them, the same scenes are fine."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.faults import journal
from tests.faults import world as module
from tests.faults.checker import check
from tests.faults.databases import Site
from tests.faults.processes import Steward, Worker
from tests.faults.verdicts import Verdict
from tests.faults.world import World
from tests.waiting import eventually

LEASE = 1.5
KEY = ("plain", "1")  # without a timeout

Scene = Callable[[World, str], None]


@pytest.fixture
def world(faults_site: Site, tmp_path: Path) -> Iterator[World]:
    world = World(faults_site, tmp_path, seed=1, lease=LEASE)
    world.steward.ask("prepare")
    yield world
    world.close()


def added_again_while_it_runs(world: World, broken: str) -> None:
    world.start_worker(FAULTS_BROKEN=broken)
    client = a_client(world, broken)
    client.ask("add", *KEY, 1.0)
    started(world, 1)
    client.ask("add", *KEY, 0.0)


def finished_by_a_zombie(world: World, broken: str) -> None:
    """One worker is frozen for longer than its lease while it runs what the other then rescues."""
    workers = [world.start_worker(FAULTS_BROKEN=broken) for _ in range(2)]
    world.wait_for_workers(2)
    a_client(world, broken).ask("add", *KEY, LEASE)
    started(world, 1)
    (run,) = records(world, "start")
    (frozen,) = (worker for worker in workers if worker.pid == run["pid"])
    since = monotonic()
    frozen.send(signal.SIGSTOP)
    started(world, 2)
    frozen.send(signal.SIGCONT)
    world.fault("SIGSTOP", since, [frozen.pid])


def everybody_silent(world: World, broken: str) -> None:
    """Two workers are frozen together; the first to wake must not take the other for dead."""
    workers = [world.start_worker("--threads", "1", FAULTS_BROKEN=broken) for _ in range(2)]
    world.wait_for_workers(2)
    client = a_client(world, broken)
    for num in "12":
        client.ask("add", KEY[0], num, LEASE * 4)
    started(world, 2)
    judge, judged = workers
    since = monotonic()
    judged.send(signal.SIGSTOP)
    # The other one has seen its last heartbeat, and can count from there.
    beats(world, judge, 2)
    judge.send(signal.SIGSTOP)
    world.pause(LEASE * 1.3)
    judge.send(signal.SIGCONT)
    # The first may show the other's silence; what comes of it is done before the second.
    beats(world, judge, 2)
    judged.send(signal.SIGCONT)
    world.fault("SIGSTOP", since, [worker.pid for worker in workers])


def one_quick_task(world: World, broken: str) -> None:
    world.start_worker(FAULTS_BROKEN=broken)
    a_client(world, broken).ask("add", *KEY, 0.0)
    started(world, 1)


def two_leases(world: World, broken: str) -> None:
    """A worker that is at work for some time, and has nothing to do."""
    worker = world.start_worker(FAULTS_BROKEN=broken)
    beats(world, worker, 9)


CASES = [
    ("add_without_version", added_again_while_it_runs, "lost"),
    ("no_hand_over", added_again_while_it_runs, "unreleased"),
    ("finish_by_id", finished_by_a_zombie, "overlap"),
    ("rescue_at_once", everybody_silent, "hasty"),
    ("forgotten_ends", one_quick_task, "stuck"),
    ("waits_with_the_heartbeat", two_leases, "silent"),
]


@pytest.mark.parametrize(("guard", "scene", "accusation"), CASES)
def test_a_guard_that_is_missing_is_noticed(world, guard, scene, accusation, monkeypatch):
    # A worker that forgets ends never settles: its claims are given back, and forgotten again.
    monkeypatch.setattr(module, "SETTLE_SECONDS", 10 * LEASE)
    assert verdict_of(world, scene, guard).counts[accusation] > 0


@pytest.mark.parametrize("scene", sorted({case[1] for case in CASES}, key=str))
def test_with_all_guards_the_same_scenes_are_fine(world, scene):
    assert verdict_of(world, scene, "").counts == Counter()


def verdict_of(world: World, scene: Scene, broken: str) -> Verdict:
    world.watch_rows()
    clocks = [world.read_clock()]
    scene(world, broken)
    world.settle(0)
    clocks.append(world.read_clock())
    world.stop_workers()
    return check(world.history(clocks))


def a_client(world: World, broken: str) -> Steward:
    return world.new_steward(FAULTS_BROKEN=broken)


def started(world: World, count: int) -> None:
    """Wait until so many runs have started."""
    eventually(
        lambda: len(records(world, "start")) >= count, f"{count} runs have started", log=world.log
    )


def beats(world: World, worker: Worker, count: int) -> None:
    """Wait for so many heartbeats of a worker."""

    def seen() -> int:
        return sum(record["pid"] == worker.pid for record in records(world, "beat"))

    wanted = seen() + count
    eventually(lambda: seen() >= wanted, f"{count} heartbeats of {worker.pid}", log=world.log)


def records(world: World, kind: str) -> list[dict[str, object]]:
    return [record for record in journal.read(world.directory) if record["kind"] == kind]
