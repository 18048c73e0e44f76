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
from tests.vendor import only_on
from tests.waiting import eventually

LEASE = 1.5
KEY = ("plain", "1")  # without a timeout
PUNCTUAL = "punctual"
# Seconds of a run that outlasts the deadline of a stop.
LONG = 3.0
IN_A_HURRY = ("--shutdown-timeout", "1")

Scene = Callable[[World, str], None]


@pytest.fixture
def world(faults_site: Site, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    # Where a run may cost a process, each worker has a supervisor, which others do not expect.
    scene = request.node.callspec.params["scene"]
    more = "Endless" if scene is without_end else ""
    habits = ["untidy"] if scene is untidy_runs else []
    world = World(faults_site, tmp_path, seed=1, lease=LEASE, habits=habits, more=more)
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


def cut_off_twice(world: World, broken: str) -> None:
    """A run that outlasts the deadline of its worker's stop, and that of the next one."""
    for _ in range(3):  # all before the run, which lasts no longer than it takes to start one
        world.start_worker(*IN_A_HURRY, FAULTS_BROKEN=broken)
    world.wait_for_workers(3)
    a_client(world, broken).ask("add", PUNCTUAL, "1", LONG)
    for stops in range(2):
        started(world, stops + 1)
        run = records(world, "start")[-1]
        (victim,) = (worker for worker in world.workers if worker.pid == run["pid"])
        since = monotonic()
        victim.send(signal.SIGTERM)
        victim.wait(30)
        world.fault("SIGTERM", since, [victim.pid])
    started(world, 3)


def paused_for_long(world: World, broken: str) -> None:
    """Tasks that become due in a pause which is longer than their grace."""
    world.start_worker(FAULTS_BROKEN=broken)
    world.wait_for_workers(1)
    keys = [(PUNCTUAL, num) for num in "12"]
    a_client(world, broken).ask("pause_for", 2.0, keys, {"biz_code": PUNCTUAL})
    started(world, 2)


def changed_in_the_calls_of_a_batch(world: World, broken: str) -> None:
    """A batch is refused again and again; meanwhile some of its tasks are changed."""
    keys = [("batched", str(num)) for num in range(20)]
    world.start_worker(FAULTS_BROKEN=broken, FAULTS_REFUSED="1")
    world.wait_for_workers(1)
    a_client(world, broken).ask("pause_for", 0.1, keys, {"biz_code": "batched"})
    started(world, len(keys))


def without_end(world: World, broken: str) -> None:
    """A run that never ends, and another worker that could take its task."""
    for _ in range(2):
        world.start_worker("--processes", "1", *IN_A_HURRY, FAULTS_BROKEN=broken)
    world.wait_for_workers(2)
    a_client(world, broken).ask("add", "endless", "1", 0.0)
    started(world, 2)


def untidy_runs(world: World, broken: str) -> None:
    """Many runs of one thread, some of which leave something behind."""
    world.start_worker("--threads", "1", FAULTS_BROKEN=broken, FAULTS_UNTIDY="0.3")
    world.wait_for_workers(1)
    keys = [(KEY[0], str(num)) for num in range(100)]
    a_client(world, broken).ask("pause_for", 0.0, keys, {"biz_code": KEY[0]})


CASES = [
    ("add_without_version", added_again_while_it_runs, "lost"),
    ("no_hand_over", added_again_while_it_runs, "unreleased"),
    ("finish_by_id", finished_by_a_zombie, "overlap"),
    ("rescue_at_once", everybody_silent, "hasty"),
    ("forgotten_ends", one_quick_task, "stuck"),
    ("waits_with_the_heartbeat", two_leases, "silent"),
]
# Of what a worker does around its runs. No statement is another on another database.
OF_RUNS = [
    ("stops_count_as_deaths", cut_off_twice, "suspect"),
    ("rescued_is_late", cut_off_twice, "misfire"),
    ("pauses_forgotten", paused_for_long, "misfire"),
    ("halves_unseen", changed_in_the_calls_of_a_batch, "called again"),
    ("charged_together", changed_in_the_calls_of_a_batch, "charged"),
    ("freed_before_its_run_ends", without_end, "overlap"),
    ("connections_kept", untidy_runs, "left behind"),
    ("one_context_for_all", untidy_runs, "left behind"),
]
once = only_on("sqlite3", because="the checker reads the same journals of each database")
ALL = [*CASES, *(pytest.param(*case, marks=once) for case in OF_RUNS)]
SCENES = sorted({case[1] for case in CASES}, key=str)
SCENES_OF_RUNS = sorted({case[1] for case in OF_RUNS}, key=str)
ALL_SCENES = [*SCENES, *(pytest.param(scene, marks=once) for scene in SCENES_OF_RUNS)]


@pytest.mark.parametrize(("guard", "scene", "accusation"), ALL)
def test_a_guard_that_is_missing_is_noticed(world, guard, scene, accusation, monkeypatch):
    # A worker that forgets ends never settles: its claims are given back, and forgotten again.
    monkeypatch.setattr(module, "SETTLE_SECONDS", 10 * LEASE)
    assert verdict_of(world, scene, guard).counts[accusation] > 0


@pytest.mark.parametrize("scene", ALL_SCENES)
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
