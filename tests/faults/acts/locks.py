"""Faults that make others wait: locks on rows and tables."""

from contextlib import suppress
from time import monotonic

from tests.faults.processes import DatabaseError, Steward
from tests.faults.scenarios import SERVERS, scenario
from tests.faults.world import World

# In leases: whoever waits for them to the end is taken for dead.
LONG = 1.8
# Seconds for clients to get on with their work.
BREATH = (1.0, 2.0)


@scenario("deadlocks, locks", sites=("sqlite", *SERVERS, "galera"))
def rogue(world: World) -> None:
    """Two strangers lock task rows in no order, for longer than lock waits last."""
    since = monotonic()
    for steward in world.rogues:
        steward.tell("lock_rows", world.random.randrange(1 << 30), 1.0)
    for steward in world.rogues:
        _hear(steward)
    # SQLite has one lock, and whoever waits for it asks now and then only.
    world.fault("locks", since, away=world.vendor == "sqlite")


@scenario("rows locked > lease", sites=SERVERS)
def long_transaction(world: World) -> None:
    """A view has the rows of running tasks locked until its commit, 1.8 leases later."""
    since = monotonic()
    world.rogues[0].tell("lock_running", world.lease * LONG)
    _hear(world.rogues[0])
    world.fault("rows locked", since)
    world.between(*BREATH)


@scenario("table locked > lease", sites=SERVERS)
def metadata_lock(world: World) -> None:
    """A report, 1.8 leases long, and a migration that waits for it: nobody else gets in."""
    table = world.random.choice(["t_task_run", "t_task_run", "t_task"])
    since = monotonic()
    report, migration = world.rogues
    report.tell("read_for_long", table, world.lease * LONG)
    world.pause(0.3)
    migration.tell("migrate_table", table)
    _hear(report)
    _hear(migration)
    world.fault(f"{table} locked", since)
    world.between(*BREATH)


@scenario("history locked > lease", sites=SERVERS)
def delete_by_hand(world: World) -> None:
    """An operator deletes old history by hand, in a transaction of 1.8 leases."""
    since = monotonic()
    world.rogues[0].tell("delete_history", world.lease * LONG)
    _hear(world.rogues[0])
    world.fault("history locked", since)


def _hear(steward: Steward) -> None:
    with suppress(DatabaseError):
        steward.answer()
