"""The settings of workers and clients under faults; the environment says what a scenario needs."""

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES

INSTALLED_APPS = ["django_tasks", "tests.faults.effects"]
MIDDLEWARE: list[str] = []

DJANGO_TASKS = {
    "LEASE": float(os.environ.get("FAULTS_LEASE", "3")),
    "SHUTDOWN_TIMEOUT": 20,
    "BATCH_SIZE": int(os.environ.get("FAULTS_BATCH", "500")),
}

_HANDLERS = ("Plain", "Atomic", "Effectful", "Again", "Flaky", "Brittle", "Slow", "AtomicAgain")
# A worker of the release before does not know these codes.
_UNKNOWN = os.environ.get("FAULTS_UNKNOWN", "").split(",")
TASK_HANDLERS = [f"tests.faults.handlers.{name}" for name in _HANDLERS if name not in _UNKNOWN]

if pragma := os.environ.get("FAULTS_PRAGMA"):
    DATABASES["default"]["OPTIONS"]["init_command"] += pragma
