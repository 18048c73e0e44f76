"""What is done to workers, connections and servers while clients add and workers run.

Each function does its worst once; ``stage`` calls it again and again while there is work. A
scenario says who takes part.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from tests.faults.databases import execute, servers
from tests.faults.world import DatabaseError, Worker, World, faketime

SERVERS = ("mariadb", "postgresql")
STANDBYS = ("synchronous standby", "asynchronous standby")


@dataclass(frozen=True)
class Scenario:
    """A fault with everything it needs. At least ``rounds`` of it are done."""

    name: str
    act: Callable[[World], None]
    sites: tuple[str, ...] = ("sqlite", *SERVERS)
    rounds: int = 1
    # Which share of the workers, and whether the clients, reach the database through the proxy.
    proxied: float = 0.0
    proxied_clients: bool = False
    # Which share of the workers has a clock that can be set wrong.
    false_clocks: float = 0.0
    # One supervisor with child processes in place of single workers.
    processes: int = 1
    # Codes that no worker knows at the start, because all are of the release before.
    unknown: str = ""
    # Whether it may be one of many in "mixed".
    mixes: bool = True
    # Where it breaks a promise that was not made: acknowledged is not replicated.
    unpromised: tuple[str, ...] = ()


SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str, **facts: Any) -> Callable[[Callable[[World], None]], Any]:
    def register(act: Callable[[World], None]) -> Callable[[World], None]:
        SCENARIOS[name] = Scenario(name, act, **facts)
        return act

    return register


@scenario("nothing", sites=("sqlite", *SERVERS, "galera"), rounds=0, mixes=False)
def nothing(world: World) -> None:
    """No fault at all: the measure for the others."""
    world.pause(0.1)


# Processes


@scenario("SIGKILL worker", sites=("sqlite", *SERVERS, "galera"))
def kill_worker(world: World) -> None:
    """A worker dies at once, with all it has in hand; a new one starts."""
    victim = world.random.choice(_alive(world))
    since = monotonic()
    pids = victim.pids()
    victim.signal(signal.SIGKILL)
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
    victim = world.random.choice(_alive(world))
    since, child = monotonic(), victim.pids()[0]
    victim.signal(signal.SIGKILL, child)
    world.fault("SIGKILL child", since, [child])
    world.pause(world.lease)


@scenario("SIGSTOP > lease", sites=("sqlite", *SERVERS, "galera"))
def freeze(world: World) -> None:
    """A worker stops for 1.8 leases and then goes on as if nothing had been."""
    victim = world.random.choice(_alive(world))
    since = monotonic()
    victim.signal(signal.SIGSTOP)
    world.pause(world.lease * 1.8)
    victim.signal(signal.SIGCONT)
    world.fault("SIGSTOP", since, [victim.pid])


@scenario("rolling deployment", rounds=4, unknown="Flaky,Again", mixes=False)
def roll(world: World) -> None:
    """Workers of the release before do not know two of the codes; one by one they are replaced."""
    old = _alive(world)[0]
    world.start_worker(*old.arguments)
    since = monotonic()
    old.signal(signal.SIGTERM)
    old.wait(30)
    world.fault("SIGTERM", since, [old.pid])


# Servers


@scenario("database stopped", sites=SERVERS, rounds=10)
def stop_database(world: World) -> None:
    """The server is shut down properly and started again, ten times."""
    _restart(world)


@scenario("database kill -9", sites=SERVERS, rounds=10)
def kill_database(world: World) -> None:
    """The server is killed and started again, ten times."""
    _restart(world, "--kill")


def _restart(world: World, *how: str) -> None:
    since = monotonic()
    servers("restart", *how, world.site.name)
    world.fault("restart", since)


@scenario("outage > lease", sites=SERVERS)
def outage(world: World) -> None:
    """Everybody looks dead when the database comes back, and nobody is."""
    since = monotonic()
    servers("kill", world.site.name)
    world.pause(world.lease * 1.5)
    servers("start", world.site.name)
    world.fault("outage", since)
    world.pause(world.lease)


@scenario("connections killed", sites=(*SERVERS, "galera"))
def kill_connections(world: World) -> None:
    """The server ends half of the connections."""
    since = monotonic()
    with suppress(DatabaseError):
        world.steward.ask("kill_connections", world.random.randrange(1 << 30), 0.5)
    world.fault("connections killed", since)


@scenario("deadlocks, locks", sites=("sqlite", *SERVERS, "galera"))
def rogue(world: World) -> None:
    """Two strangers lock task rows in no order, for longer than lock waits last."""
    since = monotonic()
    for steward in world.rogues:
        steward.tell("lock_rows", world.random.randrange(1 << 30), 1.0)
    for steward in world.rogues:
        with suppress(DatabaseError):
            steward.answer()
    world.fault("locks", since)


@scenario("too many connections", sites=SERVERS)
def no_connections(world: World) -> None:
    """The server accepts three connections only."""
    limit, unlimited = {
        "mariadb": (
            "ALTER USER plain WITH MAX_USER_CONNECTIONS 3",
            "ALTER USER plain WITH MAX_USER_CONNECTIONS 0",
        ),
        "postgresql": (
            "ALTER DATABASE faults CONNECTION LIMIT 3",
            "ALTER DATABASE faults CONNECTION LIMIT -1",
        ),
    }[world.vendor]
    since = monotonic()
    world.administer(limit)
    with suppress(DatabaseError):  # sessions that are there would stay
        world.steward.ask("kill_connections", world.random.randrange(1 << 30), 0.7)
    world.between(0.3, 1.5)
    world.administer(unlimited)
    world.fault("too many connections", since)


@scenario("read-only server", sites=SERVERS)
def read_only(world: World) -> None:
    """The server refuses writes for a while."""
    on, off = {
        "mariadb": ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"),
        "postgresql": (
            "ALTER ROLE plain SET default_transaction_read_only = on",
            "ALTER ROLE plain SET default_transaction_read_only = off",
        ),
    }[world.vendor]
    since = monotonic()
    for statement in (on, off):
        world.administer(statement)
        with suppress(DatabaseError):  # sessions keep what they began with
            world.steward.ask("kill_connections", 0, 1.0)
        world.between(0.3, 1.5)
    world.fault("read-only server", since)


# Clusters


@scenario("node killed", sites=("galera",), mixes=False)
def kill_node(world: World) -> None:
    """One of three nodes is killed, and joins again."""
    node = _node(world)
    since = monotonic()
    servers("kill", node)
    world.between(6.0, 8.0)
    servers("start", node)
    world.fault("node killed", since)
    world.pause(world.lease)


@scenario("node restarted", sites=("galera",), mixes=False)
def restart_node(world: World) -> None:
    """Stopped properly, a node leaves at once; it gets what it missed when it joins again."""
    node = _node(world)
    since = monotonic()
    servers("stop", "--keep", node)
    world.between(1.0, 3.0)
    servers("start", node)
    world.fault("node restarted", since)
    world.pause(2.0)  # or the next one takes what is counted as the recovery


@scenario("node cut off", sites=("galera",), mixes=False)
def cut_node(world: World) -> None:
    """It is alive, and has workers and clients, but no majority."""
    node = _node(world)
    since = monotonic()
    servers("cut", node)
    world.pause(world.lease * 1.8)
    servers("heal", node)
    world.fault("node cut off", since)
    world.pause(world.lease)


def _node(world: World) -> str:
    return f"galera:{world.random.randint(1, 3)}"


@scenario("primary lost", sites=STANDBYS, mixes=False, unpromised=STANDBYS[1:])
def promote(world: World) -> None:
    """SIGKILL for the primary; the standby takes its place. This can be done once."""
    if world.faults:
        world.pause(0.2)
        return
    world.between(1.0, 2.0)
    since = monotonic()
    if world.site.name == "asynchronous standby":
        _hold_standby_back()
        world.pause(2.0)
    servers("promote", "replica")
    world.fault("primary lost", since)


def _hold_standby_back() -> None:
    """It hears no more of its primary; on one machine it would hardly ever miss anything."""
    standby = servers("env", "replica")["REPLICA_STANDBY_URL"]
    execute(standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")


# The network


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
    world.fault(f"{world.proxy.cuts} cuts", since)


@scenario("proxy: stall > lease", sites=SERVERS, proxied=0.5)
def stall(world: World) -> None:
    """Half of the workers talk into a void for 1.8 leases: their connections are half-open."""
    assert world.proxy
    since = monotonic()
    world.proxy.stall()
    world.pause(world.lease * 1.8)
    world.proxy.reset()
    world.proxy.heal()
    world.fault("stall", since, [worker.pid for worker in world.proxied])


# Clocks


@scenario("clock wrong, jumping", sites=SERVERS, false_clocks=0.5)
def wrong_clock(world: World) -> None:
    """The clock of every second worker is an hour wrong from the start, and then it jumps."""
    since = monotonic()
    world.set_false_clocks(world.random.choice(["+1h", "-1h", "+0", "-3d", "+20"]))
    world.between(0.5, 1.5)
    world.fault("clock", since)


# Disks


@scenario("disk full", sites=("sqlite",))
def disk_full(world: World) -> None:
    """The file system of the database fills up, and has room again."""
    ballast = Path(world.url.removeprefix("sqlite:///")).parent / "ballast"
    since = monotonic()
    _fill(ballast)
    world.between(0.3, 1.5)
    ballast.unlink()
    world.fault("disk full", since)


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))


# All of them


@scenario("mixed", rounds=10, proxied=0.5, false_clocks=0.25, mixes=False)
def mixed(world: World) -> None:
    """Faults of this database at random, one after the other, from the seed."""
    choice = [
        scenario
        for scenario in SCENARIOS.values()
        if scenario.mixes and not why_not(scenario, world.site.name)
    ]
    world.random.choice(choice).act(world)


def _alive(world: World) -> list[Worker]:
    return [worker for worker in world.workers if worker.is_alive()]


def why_not(scenario: Scenario, site: str) -> str:
    """Why a scenario cannot be played there; nothing if it can."""
    if site not in scenario.sites:
        return f"does not exist on {site}"
    if scenario.name == "clock wrong, jumping" and not faketime():
        return "needs faketime"
    if scenario.name == "disk full" and os.geteuid() != 0:
        return "needs root, to mount a small file system"
    return ""
