"""Faults of clusters: a node or the primary is lost."""

from time import monotonic

from devtools.servers.command import servers
from tests.faults.databases import execute
from tests.faults.scenarios import STANDBYS, scenario
from tests.faults.world import World


@scenario("node killed", sites=("galera",), mixes=False)
def kill_node(world: World) -> None:
    """One of three nodes is killed, and joins again."""
    node = _node(world)
    since = monotonic()
    servers("kill", node)
    world.between(6.0, 8.0)
    servers("start", node)
    world.fault("node killed", since, away=True)
    world.pause(world.lease)


@scenario("node restarted", sites=("galera",), mixes=False)
def restart_node(world: World) -> None:
    """Stopped properly, a node leaves at once; it gets what it missed when it joins again."""
    node = _node(world)
    since = monotonic()
    servers("stop", "--keep", node)
    world.between(1.0, 3.0)
    servers("start", node)
    world.fault("node restarted", since, away=True)
    world.pause(2.0)  # or the next one takes what is counted as the recovery


@scenario("node cut off", sites=("galera",), mixes=False)
def cut_node(world: World) -> None:
    """It is alive, and has workers and clients, but no majority."""
    node = _node(world)
    since = monotonic()
    servers("cut", node)
    world.pause(world.lease * 1.8)
    servers("heal", node)
    world.fault("node cut off", since, away=True)
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
    world.fault("primary lost", since, away=True)


def _hold_standby_back() -> None:
    """It hears no more of its primary; on one machine it would hardly ever miss anything."""
    standby = servers("env", "replica")["REPLICA_STANDBY_URL"]
    execute(standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
