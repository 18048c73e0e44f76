"""Faults that make others wait: locks on rows and tables."""

from contextlib import suppress
from time import monotonic

from tests.faults.processes import DatabaseError
from tests.faults.scenarios import SERVERS, scenario
from tests.faults.world import World


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
