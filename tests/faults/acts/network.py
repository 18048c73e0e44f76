"""Faults between a worker and its server."""

from time import monotonic

from tests.faults.scenarios import SERVERS, scenario
from tests.faults.world import World


@scenario("proxy: cut in a write", sites=SERVERS, proxied=1.0, proxied_clients=True)
def cut_middle(world: World) -> None:
    """One write in fifty is cut in the middle of the statement."""
    _cut(world, cut_middle=0.02)


@scenario("proxy: cut after write", sites=SERVERS, proxied=1.0, proxied_clients=True)
def cut_answer(world: World) -> None:
    """One write in fifty is done, and its answer never arrives."""
    _cut(world, cut_answer=0.02)


@scenario("proxy: cut after COMMIT", sites=SERVERS, proxied=1.0, proxied_clients=True)
def cut_commit(world: World) -> None:
    """One COMMIT in ten is done, and its answer never arrives."""
    _cut(world, cut_commit=0.1)


def _cut(world: World, **chances: float) -> None:
    assert world.proxy
    since = monotonic()
    for name, chance in chances.items():
        setattr(world.proxy, name, chance)
    world.between(1.0, 3.0)
    world.proxy.heal()
    world.fault(f"{world.proxy.cuts} cuts", since, away=True)


@scenario("proxy: stall > lease", sites=SERVERS, proxied=0.5)
def stall(world: World) -> None:
    """Half of the workers talk into a void for 1.8 leases: their connections are half-open."""
    assert world.proxy
    since = monotonic()
    world.proxy.stall()
    world.pause(world.lease * 1.8)
    world.proxy.reset()
    world.proxy.heal()
    _note(world, "stall", since)


@scenario("proxy: silence", sites=SERVERS, proxied=0.5)
def silence(world: World) -> None:
    """Connections of half of the workers are silent for twenty leases, then cut; new ones work."""
    assert world.proxy
    since = monotonic()
    world.proxy.silence()
    world.pause(world.lease * 20)
    # Of a handler's own connection nobody else says how long it may wait.
    world.proxy.reset_silent()
    _note(world, "silence", since)


def _note(world: World, name: str, since: float) -> None:
    world.fault(name, since, [worker.pid for worker in world.proxied])
