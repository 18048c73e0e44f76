"""Checks of the installation, the handlers and the settings."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from django.core.checks import CheckMessage, Error

from django_tasks import conf, installation
from django_tasks.checks.databases import sqlite_files
from django_tasks.checks.messages import error, refusals, warning
from django_tasks.handlers import registry


def check_installation(**kwargs: Any) -> list[CheckMessage]:
    """E001"""
    clash = installation.clash()
    return [Error(clash, hint=installation.CURE, id=installation.CHECK_ID)] if clash else []


def check_handlers(**kwargs: Any) -> list[CheckMessage]:
    """E002"""
    # The registry notes an unusable TASK_HANDLERS too; that is E003.
    problems = set(registry.problems()) - set(refusals(conf.handler_paths))
    hint = "Mend it, or take it out; no worker runs its tasks as it is."
    return [error("E002", problem, hint) for problem in sorted(problems)]


def check_atomic_handlers(**kwargs: Any) -> list[CheckMessage]:
    """W006: right in development, and to be thought about before production"""
    return [found for alias in sqlite_files() for found in _atomic_handlers(alias)]


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """E003, W001"""
    not_a_dict = refusals(conf.unknown_names)
    problems = [error("E003", text) for text in (*not_a_dict, *refusals(conf.handler_paths))]
    return problems if not_a_dict else [*problems, *_bad_values(), *_unknown_names()]


def _atomic_handlers(alias: str) -> Iterator[CheckMessage]:
    for code, handler in registry.get_task_handlers().items():
        if handler.atomic:
            yield warning(
                "W006",
                f"The handler of {code!r} ({registry.describe(handler)}) is atomic and may run on "
                f"the SQLite database {alias!r}: while it runs, nobody else can write, and no "
                "worker can send its heartbeat.",
                "Keep its runs far shorter than the lease: slow work, such as calls over the "
                "network, belongs before or after it, in a handler that is not atomic. Or keep "
                "the tasks in MariaDB, MySQL or PostgreSQL.",
            )


def _bad_values() -> Iterator[CheckMessage]:
    for name, problem in conf.problems():
        yield error("E003", f"DJANGO_TASKS[{name!r}] {problem}")


def _unknown_names() -> Iterator[CheckMessage]:
    for name in conf.unknown_names():
        yield warning("W001", f"DJANGO_TASKS[{name!r}] means nothing.", _did_you_mean(name))


def _did_you_mean(name: str) -> str:
    near = get_close_matches(name.upper(), conf.names(), n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(conf.names())}."
