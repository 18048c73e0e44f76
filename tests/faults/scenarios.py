"""Scenarios by name: a fault, and what takes part in it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.faults.processes import Worker, faketime
from tests.faults.world import World

SERVERS = ("mysql", "mariadb", "postgresql")
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
    # A handler that is known here beside the usual ones, and more arguments of its workers.
    more: str = ""
    arguments: tuple[str, ...] = ()
    # Habits that are not chosen here.
    without: tuple[str, ...] = ()
    # Whether it may be one of many in "mixed".
    mixes: bool = True
    # Where it breaks a promise that was not made: acknowledged is not replicated.
    unpromised: tuple[str, ...] = ()


# In the order of the table.
SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str, **facts: Any) -> Callable[[Callable[[World], None]], Any]:
    """Register the function, which does its worst once, as a scenario."""

    def register(act: Callable[[World], None]) -> Callable[[World], None]:
        SCENARIOS[name] = Scenario(name, act, **facts)
        return act

    return register


def alive(world: World) -> list[Worker]:
    """The workers that still run."""
    return [worker for worker in world.workers if worker.is_running()]


def why_not(scenario: Scenario, site: str) -> str:
    """Say why a scenario cannot be played there; nothing if it can."""
    if site not in scenario.sites:
        return f"does not exist on {site}"
    if scenario.name == "clock wrong, jumping" and not faketime():
        return "needs faketime"
    if scenario.name == "disk full" and os.geteuid() != 0:
        return "needs root, to mount a small file system"
    return ""
