"""A database with many lanes. A lane is a queue, a priority and a code."""

from time import monotonic

from tests.faults import journal
from tests.faults.scenarios import SERVERS, scenario
from tests.faults.world import World

LANES = 2000
VISITORS = 200
SECONDS = 4.0
# The longest that a task may wait, with a slow hook or two before it. What no look finds, a worker
# finds after a minute.
PATIENCE = 30.0


@scenario("many lanes", sites=("sqlite", *SERVERS), mixes=False)
def many_lanes(world: World) -> None:
    """2,000 queues wait for another day; some hundred others fill, and are empty again."""
    since = monotonic()
    journal.write("patience", seconds=PATIENCE)
    world.steward.ask("add_lanes", LANES)
    world.steward.ask("visit_lanes", world.random.randrange(1 << 30), VISITORS, LANES, SECONDS)
    world.steward.ask("cancel_lanes")
    world.fault("many lanes", since)
