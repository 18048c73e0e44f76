"""What is done to workers, connections and servers while clients add and workers run.

A scenario says who takes part, and does its worst for as long as the clients are busy.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from tests.faults.world import CHECKOUT, DatabaseError, Worker, World

FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
ALL = ("sqlite", "mariadb", "postgresql")
SERVERS = ("mariadb", "postgresql")


@dataclass(frozen=True)
class Scenario:
    """A fault with everything it needs."""

    name: str
    act: Callable[[World], None]
    databases: tuple[str, ...] = ALL
    # Which of the workers, and whether the clients, reach the database through the proxy.
    proxied: float = 0.0
    proxied_clients: bool = False
    # One supervisor with child processes in place of single workers.
    processes: int = 1
    start: Callable[[World, int], None] | None = None


SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str, **facts: Any) -> Callable[[Callable[[World], None]], Any]:
    def register(act: Callable[[World], None]) -> Callable[[World], None]:
        SCENARIOS[name] = Scenario(name, act, **facts)
        return act

    return register


@scenario("nothing")
def nothing(world: World) -> None:
    """No fault at all: the measure for the others."""


# Processes


@scenario("SIGKILL worker")
def kill_worker(world: World) -> None:
    while world.clients_are_busy():
        world.between(0.5, 1.5)
        victim = world.random.choice(_alive(world))
        since = monotonic()
        victim.signal(signal.SIGKILL)
        victim.wait(10)
        world.fault("SIGKILL worker", since, [victim.pid])
        world.start_worker()
        world.pause(world.lease)


@scenario("SIGKILL supervisor", processes=2)
def kill_supervisor(world: World) -> None:
    while world.clients_are_busy():
        world.between(0.5, 1.5)
        victim = world.random.choice(_alive(world))
        since, children = monotonic(), victim.pids()
        if world.random.random() < 0.5:
            victim.signal(signal.SIGKILL)
            victim.wait(10)
            world.start_worker("--processes", "2")
        else:
            victim.signal(signal.SIGKILL, children[0])
            children = children[:1]
        world.fault("SIGKILL supervisor", since, children)
        world.pause(world.lease)


@scenario("SIGSTOP > lease")
def freeze(world: World) -> None:
    while world.clients_are_busy():
        world.between(0.2, 0.5)
        victim = world.random.choice(_alive(world))
        since = monotonic()
        victim.signal(signal.SIGSTOP)
        world.pause(world.lease * 1.8)
        victim.signal(signal.SIGCONT)
        world.fault("SIGSTOP", since, [victim.pid])


@scenario("rolling deployment")
def roll(world: World) -> None:
    """Workers of the release before do not know two of the codes; one by one they are replaced."""
    for old in _alive(world):
        world.between(0.5, 1.0)
        world.start_worker()
        since = monotonic()
        old.signal(signal.SIGTERM)
        old.wait(30)
        world.fault("SIGTERM", since, [old.pid])


def start_old(world: World, number: int) -> None:
    world.start_worker(FAULTS_UNKNOWN="Flaky,Again")


SCENARIOS["rolling deployment"] = Scenario("rolling deployment", roll, start=start_old)


# Servers


@scenario("database stopped", databases=SERVERS)
def stop_database(world: World) -> None:
    _restarts(world, "restart")


@scenario("database kill -9", databases=SERVERS)
def kill_database(world: World) -> None:
    _restarts(world, "restart", "--kill")


@scenario("outage > lease", databases=SERVERS)
def outage(world: World) -> None:
    """Everybody looks dead when the database comes back, and nobody is."""
    world.between(1, 2)
    since = monotonic()
    servers("kill", world.vendor)
    world.pause(world.lease * 1.5)
    servers("start", world.vendor)
    world.fault("outage", since)


def _restarts(world: World, *command: str) -> None:
    while world.clients_are_busy():
        world.between(0.5, 1.0)
        since = monotonic()
        servers(*command, world.vendor)
        world.fault(command[-1], since)


def servers(*arguments: str) -> str:
    """Run scripts/servers for the servers of this run."""
    done = subprocess.run(
        [sys.executable, "scripts/servers", *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@scenario("connections killed", databases=SERVERS)
def kill_connections(world: World) -> None:
    while world.clients_are_busy():
        world.between(0.1, 0.4)
        since = monotonic()
        with suppress(DatabaseError):
            world.steward.ask("kill_connections", world.random.randrange(1 << 30), 0.5)
        world.fault("connections killed", since)


@scenario("deadlocks, locks", databases=ALL)
def rogue(world: World) -> None:
    stewards = [world.new_steward() for _ in range(2)]
    while world.clients_are_busy():
        since = monotonic()
        for steward in stewards:
            steward.tell("lock_rows", world.random.randrange(1 << 30), 1.0)
        for steward in stewards:
            with suppress(DatabaseError):
                steward.answer()
        world.fault("locks", since)


@scenario("too many connections", databases=SERVERS)
def no_connections(world: World) -> None:
    limit = {
        "mariadb": "ALTER USER plain WITH MAX_USER_CONNECTIONS {}",
        "postgresql": "ALTER ROLE plain CONNECTION LIMIT {}",
    }[world.vendor]
    unlimited = {"mariadb": 0, "postgresql": -1}[world.vendor]
    while world.clients_are_busy():
        world.between(0.5, 1.0)
        since = monotonic()
        world.administrator.ask("execute", limit.format(3))
        world.between(0.3, 1.5)
        world.administrator.ask("execute", limit.format(unlimited))
        world.fault("too many connections", since)


@scenario("read-only server", databases=SERVERS)
def read_only(world: World) -> None:
    on, off = {
        "mariadb": ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"),
        "postgresql": (
            "ALTER ROLE plain SET default_transaction_read_only = on",
            "ALTER ROLE plain SET default_transaction_read_only = off",
        ),
    }[world.vendor]
    while world.clients_are_busy():
        world.between(0.5, 1.0)
        since = monotonic()
        for statement in (on, off):
            world.administrator.ask("execute", statement)
            with suppress(DatabaseError):  # sessions keep what they began with
                world.steward.ask("kill_connections", 0, 1.0)
            world.between(0.3, 1.5)
        world.fault("read-only server", since)


# The network


@scenario("proxy: cut in a write", databases=SERVERS, proxied=1.0, proxied_clients=True)
def cut_middle(world: World) -> None:
    _cut(world, cut_middle=0.02)


@scenario("proxy: cut after write", databases=SERVERS, proxied=1.0, proxied_clients=True)
def cut_answer(world: World) -> None:
    _cut(world, cut_answer=0.02)


@scenario("proxy: cut after COMMIT", databases=SERVERS, proxied=1.0, proxied_clients=True)
def cut_commit(world: World) -> None:
    _cut(world, cut_commit=0.1)


def _cut(world: World, **chances: float) -> None:
    assert world.proxy
    since = monotonic()
    for name, chance in chances.items():
        setattr(world.proxy, name, chance)
    while world.clients_are_busy():
        world.pause(0.1)
    world.proxy.heal()
    world.fault(f"{world.proxy.cuts} cuts", since)


@scenario("proxy: stall > lease", databases=SERVERS, proxied=0.5)
def stall(world: World) -> None:
    assert world.proxy
    while world.clients_are_busy():
        world.between(0.5, 1.0)
        since = monotonic()
        world.proxy.stall()
        world.pause(world.lease * 1.8)
        world.proxy.reset()
        world.proxy.heal()
        world.fault("stall", since, [worker.pid for worker in world.proxied])


# Clocks


@scenario("clock wrong, jumping", databases=SERVERS)
def wrong_clock(world: World) -> None:
    rate = world.directory / "clock"
    while world.clients_are_busy():
        since = monotonic()
        rate.write_text(world.random.choice(["+1h", "-1h", "+0", "-3d", "+20"]))
        world.between(0.5, 1.5)
        world.fault("clock", since)


def start_wrong(world: World, number: int) -> None:
    """One worker of two has a clock that is an hour wrong, and jumps."""
    if number % 2:
        world.start_worker()
        return
    (library,) = Path("/").glob(FAKETIME[1:])
    clock = world.directory / "clock"
    clock.write_text("+1h")
    world.start_worker(
        LD_PRELOAD=str(library),
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_NO_CACHE="1",
        DONT_FAKE_MONOTONIC="1",
    )


SCENARIOS["clock wrong, jumping"] = Scenario(
    "clock wrong, jumping", wrong_clock, SERVERS, start=start_wrong
)


# Disks


@scenario("disk full", databases=("sqlite",))
def disk_full(world: World) -> None:
    """The file system of the database fills up, and has room again."""
    directory = Path(world.url.removeprefix("sqlite:///")).parent
    ballast = directory / "ballast"
    while world.clients_are_busy():
        world.between(0.5, 1.0)
        since = monotonic()
        _fill(ballast)
        world.between(0.3, 1.5)
        ballast.unlink()
        world.fault("disk full", since)


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


# All of them


@scenario("mixed", proxied=0.5)
def mixed(world: World) -> None:
    """Faults at random, one after the other, from the seed."""
    while world.clients_are_busy():
        world.between(0.2, 0.6)
        since = monotonic()
        name = world.random.choice(["kill", "freeze", "connections", "cut"])
        victim = world.random.choice(_alive(world))
        if name == "kill":
            victim.signal(signal.SIGKILL)
            victim.wait(10)
            world.start_worker()
            world.fault(name, since, [victim.pid])
        elif name == "freeze":
            victim.signal(signal.SIGSTOP)
            world.pause(world.lease * 1.4)
            victim.signal(signal.SIGCONT)
            world.fault(name, since, [victim.pid])
        elif name == "connections" and world.vendor != "sqlite":
            with suppress(DatabaseError):
                world.steward.ask("kill_connections", world.random.randrange(1 << 30), 0.5)
            world.fault(name, since)
        elif world.proxy is not None:
            world.proxy.cut_answer = 0.02
            world.between(0.5, 1.5)
            world.proxy.heal()
            world.fault(name, since)


def _alive(world: World) -> list[Worker]:
    return [worker for worker in world.workers if worker.is_alive()]


def can_run(scenario: Scenario, vendor: str) -> str:
    """Why a scenario cannot run here, or nothing."""
    if vendor not in scenario.databases:
        return f"does not exist on {vendor}"
    if scenario.name.startswith("clock") and not list(Path("/").glob(FAKETIME[1:])):
        return "needs faketime"
    if scenario.name == "disk full" and os.geteuid() != 0:
        return "needs root, to mount a small file system"
    return ""
