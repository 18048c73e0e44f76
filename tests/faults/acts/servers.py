"""Faults of single servers: they die, stop, refuse."""

from contextlib import suppress
from time import monotonic

from devtools.servers.command import servers
from tests.faults.databases import NEW_PRIMARY
from tests.faults.processes import DatabaseError
from tests.faults.scenarios import SERVERS, scenario
from tests.faults.world import World


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
    world.fault("restart", since, away=True)


@scenario("outage > lease", sites=SERVERS)
def outage(world: World) -> None:
    """Everybody looks dead when the database comes back, and nobody is."""
    since = monotonic()
    servers("kill", world.site.name)
    world.pause(world.lease * 1.5)
    servers("start", world.site.name)
    world.fault("outage", since, away=True)
    world.pause(world.lease)


@scenario("connections killed", sites=(*SERVERS, "galera"))
def kill_connections(world: World) -> None:
    """The server ends half of the connections."""
    since = monotonic()
    with suppress(DatabaseError):
        world.steward.ask("kill_connections", world.random.randrange(1 << 30), 0.5)
    world.fault("connections killed", since)


_LIMIT = {
    # Of all users; an administrator has one more.
    "mysql": ("SET GLOBAL max_connections = 3", "SET GLOBAL max_connections = 300"),
    "mariadb": (
        "ALTER USER plain WITH MAX_USER_CONNECTIONS 3",
        "ALTER USER plain WITH MAX_USER_CONNECTIONS 0",
    ),
    "postgresql": (
        "ALTER DATABASE faults CONNECTION LIMIT 3",
        "ALTER DATABASE faults CONNECTION LIMIT -1",
    ),
}


@scenario("too many connections", sites=SERVERS)
def no_connections(world: World) -> None:
    """The server accepts three connections only."""
    limit, unlimited = _LIMIT[world.vendor]
    since = monotonic()
    world.administer(limit)
    with suppress(DatabaseError):  # sessions that are there would stay
        world.steward.ask("kill_connections", world.random.randrange(1 << 30), 0.7)
    world.between(0.3, 1.5)
    world.administer(unlimited)
    world.fault("too many connections", since, away=True)


@scenario("read-only server", sites=SERVERS)
def read_only(world: World) -> None:
    """The server refuses writes for a while."""
    on, off = {
        # Nobody may write then, the account of the new primary neither.
        "mysql": ("SET GLOBAL super_read_only = 1", "SET GLOBAL read_only = 0"),
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
    world.fault("read-only server", since, away=True)


@scenario("offline mode", sites=("mysql",))
def offline(world: World) -> None:
    """The server ends all sessions but those of administrators, and lets nobody else in."""
    since = monotonic()
    world.administer("SET GLOBAL offline_mode = 1")
    world.between(0.3, 1.5)
    world.administer("SET GLOBAL offline_mode = 0")
    world.fault("offline mode", since, away=True)


# A switchover within one server: sessions that are there become read-only, and sessions made from
# now on are not. In MySQL and MariaDB the new ones come from another address, whose account may
# write all the same; in PostgreSQL a role's own setting counts from the next login on.
_SWITCH: dict[str, tuple[str, ...]] = {
    "mysql": ("SET GLOBAL read_only = 1",),
    "mariadb": ("SET GLOBAL read_only = 1",),
    "postgresql": (
        "SET default_transaction_read_only = off",
        "ALTER ROLE plain SET default_transaction_read_only = off",
        "ALTER SYSTEM SET default_transaction_read_only = on",
        "SELECT pg_reload_conf()",
    ),
}
_SWITCH_BACK: dict[str, tuple[str, ...]] = {
    "mysql": ("SET GLOBAL read_only = 0",),
    "mariadb": ("SET GLOBAL read_only = 0",),
    "postgresql": (
        "SET default_transaction_read_only = off",
        "ALTER SYSTEM RESET default_transaction_read_only",
        "SELECT pg_reload_conf()",
        "ALTER ROLE plain RESET default_transaction_read_only",
    ),
}


@scenario("switchover", sites=SERVERS, proxied=1.0, proxied_clients=True, mixes=False)
def switch_over(world: World) -> None:
    """The old primary stays up, read-only; new connections lead to the new one."""
    assert world.proxy
    since = monotonic()
    if world.vendor != "postgresql":
        world.proxy.source = NEW_PRIMARY
    world.administer(*_SWITCH[world.vendor])
    world.pause(world.lease * 2.5)
    world.fault("switchover", since)
    world.administer(*_SWITCH_BACK[world.vendor])
    world.proxy.source = None
    world.proxy.reset()
