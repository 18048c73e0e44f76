"""One scenario at one site, from empty tables to a verdict."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from tests.faults.checker import check
from tests.faults.databases import Site
from tests.faults.processes import faketime
from tests.faults.scenarios import Scenario
from tests.faults.verdicts import Accusation, Verdict, defects
from tests.faults.world import World

# However slow the machine: a scenario that takes longer hangs.
LIMIT_SECONDS = 900.0


class Size(NamedTuple):
    """The size of a play; times are seconds. ``rounds``: the most faults beyond the time."""

    tasks: int = 2000
    seconds: float = 5.0
    batch: int = 0
    rounds: int = 10
    workers: int = 4
    threads: int = 8
    clients: int = 2
    lease: float = 3.0


def play(
    scenario: Scenario,
    site: Site,
    directory: Path,
    *,
    seed: int,
    size: Size,
    habits: Sequence[str] = (),
) -> Verdict:
    """Play a scenario; the journals stay in ``directory``."""
    lease = max(size.lease, site.lease)
    world = World(site, directory, seed=seed, lease=lease, habits=habits, more=scenario.more)
    try:
        return _play(scenario, world, size)
    finally:
        world.close()


def _play(scenario: Scenario, world: World, size: Size) -> Verdict:
    world.steward.ask("prepare")
    world.watch_rows()
    clocks = [world.read_clock()]
    _start_workers(scenario, world, size)
    _close_idle(world)
    for _ in range(size.clients):
        adds = size.tasks // size.clients
        world.start_client(adds, size.seconds, size.batch, proxied=scenario.proxied_clients)
    world.wait_for_clients()
    _do_the_worst(scenario, world, min(scenario.rounds, size.rounds))
    world.await_clients()
    settled = world.settle(size.tasks)
    clocks.append(world.read_clock())
    world.stop_workers()
    verdict = check(world.history(clocks))
    if not settled:
        verdict.accusations.append(Accusation("stuck", "Not everything was done in time"))
    verdict.accusations += defects(world.workers_log())
    verdict.accusations += _ends(world)
    return verdict


def _ends(world: World) -> Iterator[Accusation]:
    """Workers end when they are told to, and well."""
    for code in world.exit_codes:
        if code not in (0, -9):
            yield Accusation("stuck", f"A worker ended with {code}")
    for pid in world.deserters:
        yield Accusation("stuck", f"Worker process {pid} had ended, and nobody had told it to")


def _do_the_worst(scenario: Scenario, world: World, rounds: int) -> None:
    deadline = monotonic() + LIMIT_SECONDS
    while world.goes_on(rounds):
        world.between(0.2, 0.8)
        _close_idle(world)
        scenario.act(world)
        assert monotonic() < deadline, f"{scenario.name} has no end:\n{world.log()}"


def _close_idle(world: World) -> None:
    """As servers and firewalls do; it is why there are health checks."""
    if "health-checks" in world.habits:
        world.close_idle_connections()


def _start_workers(scenario: Scenario, world: World, size: Size) -> None:
    count = size.workers // scenario.processes
    arguments = ["--threads", str(size.threads), *scenario.arguments]
    if scenario.processes > 1:
        arguments += ["--processes", str(scenario.processes)]
    # SQLite is a file: there is no way to it, and its clock is the host's.
    is_file = world.vendor == "sqlite"
    proxied = 0 if is_file else round(count * scenario.proxied)
    false_clocks = 0 if is_file or not faketime() else round(count * scenario.false_clocks)
    world.set_false_clocks("+1h")
    for number in range(count):
        world.start_worker(
            *arguments,
            proxied=number < proxied,
            false_clock=number >= count - false_clocks,
            FAULTS_UNKNOWN=scenario.unknown,
        )
    world.wait_for_workers(size.workers)
