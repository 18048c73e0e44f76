"""Messages of the checks, and the databases that they look at: those that may hold tasks."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.db import connections, router

from django_tasks import conf
from django_tasks.models import Task
from django_tasks.sentences import said


def error(number: str, message: str, hint: str | None = None) -> CheckMessage:
    return Error(message, hint=hint, id=f"django_tasks.{number}")


def warning(number: str, message: str, hint: str) -> CheckMessage:
    return Warning(message, hint=hint, id=f"django_tasks.{number}")


def refusals(read: Callable[[], Any]) -> list[str]:
    """The sentence that reading a setting is refused with, if it is."""
    try:
        read()
    except conf.ConfigurationError as refusal:
        return [said(refusal)]
    return []


_WAL = re.compile(r"journal_mode\s*[=(]\s*['\"]?wal\b", re.IGNORECASE)


def task_databases() -> Iterator[tuple[str, Any]]:
    """Aliases and connections, as the routers say. To look at settings does not connect."""
    for alias in connections:
        if router.allow_migrate_model(alias, Task):
            yield alias, connections[alias]


def sqlite_files() -> Iterator[str]:
    for alias, connection in task_databases():
        if connection.vendor == "sqlite" and not in_memory(connection):
            yield alias


def in_memory(connection: Any) -> bool:
    """A database of one process, such as a test's: nobody else is there to wait for."""
    return bool(connection.is_in_memory_db())


def asks_for_wal(connection: Any) -> bool:
    """The settings of a SQLite database ask for write-ahead logging."""
    return bool(_WAL.search(connection.settings_dict["OPTIONS"].get("init_command", "")))
