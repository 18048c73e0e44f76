"""One scenario on one database, from empty tables to a verdict."""

from pathlib import Path
from typing import NamedTuple

from tests.faults.checker import Accusation, Verdict, check
from tests.faults.faults import Scenario
from tests.faults.world import World

CODES = ("plain", "slow", "atomic", "effectful", "again", "atomic_again", "flaky", "brittle")


class Size(NamedTuple):
    """How much of everything."""

    tasks: int = 3000
    seconds: float = 10.0
    workers: int = 4
    threads: int = 8
    clients: int = 2
    lease: float = 3.0


def play(
    scenario: Scenario, url: str, directory: Path, *, seed: int, size: Size, admin_url: str = ""
) -> Verdict:
    """Play a scenario; the journals stay in ``directory``."""
    world = World(url, directory, seed=seed, lease=size.lease)
    try:
        world.administrator_url = admin_url or url
        return _play(scenario, world, size)
    finally:
        world.close()


def _play(scenario: Scenario, world: World, size: Size) -> Verdict:
    world.steward.ask("prepare")
    clocks = [world.read_clock()]
    _start_workers(scenario, world, size)
    for _ in range(size.clients):
        adds = size.tasks // size.clients
        world.start_client(adds, size.seconds, CODES, proxied=scenario.proxied_clients)
    scenario.act(world)
    world.await_clients()
    settled = world.settle()
    clocks.append(world.read_clock())
    world.stop_workers()
    verdict = check(world.history(clocks))
    if not settled:
        verdict.accusations.append(Accusation("stuck", "Not everything was done in time"))
    verdict.accusations += [
        Accusation("stuck", f"A worker ended with {code}")
        for worker, code in zip(world.workers, world.exit_codes, strict=True)
        if code not in (0, -9)
    ]
    return verdict


def _start_workers(scenario: Scenario, world: World, size: Size) -> None:
    world.arguments = ("--threads", str(size.threads))
    # SQLite is a file: there is no way to it.
    proxied = 0 if world.vendor == "sqlite" else round(size.workers * scenario.proxied)
    for number in range(size.workers // scenario.processes):
        if scenario.start is not None:
            scenario.start(world, number)
        elif scenario.processes > 1:
            world.start_worker("--processes", str(scenario.processes))
        else:
            worker = world.start_worker(proxied=number < proxied)
            if number < proxied:
                world.proxied.append(worker)
    world.wait_for_workers(size.workers)
