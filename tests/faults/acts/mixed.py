"""All of them by turns."""

from tests.faults.scenarios import SCENARIOS, scenario, why_not
from tests.faults.world import World


@scenario("mixed", rounds=10, proxied=0.5, false_clocks=0.25, mixes=False)
def mixed(world: World) -> None:
    """Faults of this database at random, one after the other, from the seed."""
    choice = [
        scenario
        for scenario in SCENARIOS.values()
        if scenario.mixes and not why_not(scenario, world.site.name)
    ]
    world.random.choice(choice).act(world)
