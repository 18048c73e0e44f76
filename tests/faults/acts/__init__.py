"""All faults: things done to workers, connections and servers while clients add and workers run.

Each function does its worst once; ``stage`` calls it again and again while there is work. The
order of the imports below is that of the table.
"""

from tests.faults.acts import processes  # noqa: I001
from tests.faults.acts import order
from tests.faults.acts import upgrades
from tests.faults.acts import servers
from tests.faults.acts import locks
from tests.faults.acts import clusters
from tests.faults.acts import network
from tests.faults.acts import hosts
from tests.faults.acts import lanes
from tests.faults.acts import mixed
from tests.faults.scenarios import SCENARIOS, Scenario, why_not

__all__ = [
    "SCENARIOS",
    "Scenario",
    "clusters",
    "hosts",
    "lanes",
    "locks",
    "mixed",
    "network",
    "order",
    "processes",
    "servers",
    "upgrades",
    "why_not",
]
