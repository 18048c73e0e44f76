"""The settings of workers and clients under faults; the environment says what a scenario needs."""

import os
from typing import Any

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES
from tests.faults.habits import accustomed


def several(hosts: list[str], engine: str) -> dict[str, Any]:
    """Settings for a driver that may choose: libpq or MariaDB's Connector/C."""
    if engine.endswith("mysql"):
        return {"HOST": ",".join(hosts), "PORT": ""}
    names, ports = zip(*(host.split(":") for host in hosts), strict=True)
    options = {"target_session_attrs": "read-write"}
    return {"HOST": ",".join(names), "PORT": ",".join(ports), "OPTIONS": options}


INSTALLED_APPS = ["django_tasks", "tests.faults.effects"]
MIDDLEWARE = []

DJANGO_TASKS = {
    "PROCESSES": 1,
    "LEASE": float(os.environ.get("FAULTS_LEASE", "3")),
    "SHUTDOWN_TIMEOUT": 20,
    "HISTORY": "all",
    "BATCH_SIZE": int(os.environ.get("FAULTS_BATCH", "500")),
}

_HANDLERS = (
    "Plain",
    "Atomic",
    "Effectful",
    "Again",
    "Beat",
    "Flaky",
    "Brittle",
    "Slow",
    "AtomicAgain",
    "Batched",
    "AtomicBatch",
    "Punctual",
)
# Handlers that would change every scenario.
_MORE = tuple(filter(None, os.environ.get("FAULTS_MORE", "").split(",")))
# A worker of the release before does not know these codes.
_UNKNOWN = os.environ.get("FAULTS_UNKNOWN", "").split(",")
TASK_HANDLERS = [
    f"tests.faults.handlers.{name}" for name in (*_HANDLERS, *_MORE) if name not in _UNKNOWN
]

# Several servers that are one: drivers try them until one answers, or takes writes.
if hosts := DATABASES["default"].get("OPTIONS", {}).pop("hosts", ""):
    DATABASES["default"].update(several(hosts.split(","), DATABASES["default"]["ENGINE"]))

DATABASES["default"] = accustomed(DATABASES["default"])

if pragma := os.environ.get("FAULTS_PRAGMA"):
    DATABASES["default"]["OPTIONS"]["init_command"] += pragma
