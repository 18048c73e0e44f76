"""Faults of worker processes: they die, freeze and are replaced."""

import os
import signal
from contextlib import suppress
from time import monotonic

from tests.faults.scenarios import SERVERS, alive, scenario
from tests.faults.world import World
from tests.waiting import eventually


@scenario("nothing", sites=("sqlite", *SERVERS, "galera"), rounds=0, mixes=False)
def nothing(world: World) -> None:
    """No fault at all: the measure for the others."""
    world.pause(0.1)


@scenario("SIGKILL worker", sites=("sqlite", *SERVERS, "galera"))
def kill_worker(world: World) -> None:
    """A worker dies at once, with all it has in hand; a new one starts."""
    victim = world.random.choice(alive(world))
    since = monotonic()
    pids = victim.pids()
    victim.send(signal.SIGKILL)
    victim.wait(10)
    world.fault("SIGKILL worker", since, pids)
    world.start_worker(*victim.arguments)
    world.pause(world.lease)


@scenario("SIGKILL supervisor", processes=2, mixes=False)
def kill_supervisor(world: World) -> None:
    """The parent dies and its children must end; or a child dies and must be replaced."""
    if world.random.random() < 0.5:
        kill_worker(world)
        return
    victim = world.random.choice(alive(world))
    child = eventually(victim.children, "it has children", log=world.log)[0]
    since = monotonic()
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    world.fault("SIGKILL child", since, [child])
    world.pause(world.lease)


@scenario("SIGSTOP > lease", sites=("sqlite", *SERVERS, "galera"))
def freeze(world: World) -> None:
    """A worker stops for 1.8 leases and then goes on as if nothing had been."""
    victim = world.random.choice(alive(world))
    since = monotonic()
    victim.send(signal.SIGSTOP)
    world.pause(world.lease * 1.8)
    victim.send(signal.SIGCONT)
    # On SQLite it may have been stopped with the only lock in its hand.
    world.fault("SIGSTOP", since, [victim.pid], away=world.vendor == "sqlite")


@scenario("rolling deployment", rounds=4, unknown="Flaky,Again", mixes=False)
def roll(world: World) -> None:
    """Workers of the release before do not know two of the codes; one by one they are replaced."""
    old = alive(world)[0]
    world.start_worker(*old.arguments)
    # As a deployment does: one that is ended before it has begun was never there.
    world.wait_for_workers(len(alive(world)))
    since = monotonic()
    old.send(signal.SIGTERM)
    old.wait(30)
    world.fault("SIGTERM", since, [old.pid])
