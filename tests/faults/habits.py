"""Habits of real projects: settings and code of a project that a worker must live with.

Under every fault some of them are in force, chosen at random from the seed; ``--habit`` forces
them. The harness chooses, and tells the processes by a variable of their environment.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Any

HABITS = "FAULTS_HABITS"
# Each habit is in force under so many faults: two at once, mostly.
SHARE = 0.3
# A zone with half hours, whose clocks change twice a year.
ZONE = "America/St_Johns"
POOL = {"min_size": 2, "max_size": 24, "timeout": 10}

_UNPOOLED = ("kept", "health-checks")
_SERVERS = ("mysql", "mariadb", "postgresql")
_EVERY = ("sqlite", *_SERVERS)


@dataclass(frozen=True)
class Habit:
    """A habit of projects, and the databases on which it is possible."""

    about: str
    vendors: tuple[str, ...] = _EVERY


KNOWN = {
    "health-checks": Habit("CONN_HEALTH_CHECKS; the server closes idle connections", _SERVERS),
    "kept": Habit("CONN_MAX_AGE = None: connections are kept"),
    "pooled": Habit("connections come from a pool, OPTIONS pool", ("postgresql",)),
    "time-zone": Habit("the database has a TIME_ZONE of its own", ("sqlite", "mysql", "mariadb")),
    "slow-receivers": Habit("now and then a receiver or a hook takes two leases"),
    "slow-logs": Habit("now and then a log handler takes two leases"),
    "forks": Habit("a handler forks, and terminates its child"),
    "untidy": Habit(
        "now and then a handler leaves a transaction open, or a time zone and the like of its own"
    ),
}


def chosen(seed: int, site: str, vendor: str, fault: str) -> tuple[str, ...]:
    """Choose at random; one seed chooses the same for one fault at one site, always."""
    random = Random(f"{seed}/{site}/{fault}")
    return possible([name for name in KNOWN if random.random() < SHARE], vendor)


def possible(names: Collection[str], vendor: str) -> tuple[str, ...]:
    """Those that are possible on a database, and with each other."""
    there = [name for name in KNOWN if name in names and vendor in KNOWN[name].vendors]
    # Django has no pool of connections that are kept. And psycopg_pool waits for one second, two,
    # four after each connection that a check finds closed: where they are killed again and again,
    # nobody would come to work.
    return tuple(name for name in there if name not in _UNPOOLED or "pooled" not in there)


def on(name: str) -> bool:
    """Tell if a habit is in force in this process."""
    return name in os.environ.get(HABITS, "").split(",")


def accustomed(database: dict[str, Any]) -> dict[str, Any]:
    """The settings of a database under the habits of this process."""
    settings = dict(database)
    if on("health-checks"):
        settings["CONN_HEALTH_CHECKS"] = True
    if on("kept"):
        settings["CONN_MAX_AGE"] = None
    if on("pooled"):
        settings["OPTIONS"] = {**settings.get("OPTIONS", {}), "pool": POOL}
    if on("time-zone"):
        settings["TIME_ZONE"] = ZONE
    return settings
