"""A system check of handlers: attributes that mean nothing, and look as if they did."""

from collections.abc import Iterator
from inspect import isclass, isroutine
from typing import Any

from django.core.checks import CheckMessage, Warning  # noqa: A004

from django_tasks.handlers import registry
from django_tasks.handlers.base import TaskHandler, near_name

# All names that mean something, and which of them are hooks.
_KNOWN = {name: value for name, value in vars(TaskHandler).items() if not name.startswith("_")}
_HOOKS = {name for name, value in _KNOWN.items() if isroutine(value)}


def check_names(**kwargs: Any) -> list[CheckMessage]:
    """W008"""
    found = (each for handler in registry.get_task_handlers().values() for each in _near(handler))
    return [
        Warning(
            f"{where} has {name!r}, which means nothing to django_tasks.",
            hint=f"Did you mean {near!r}? A name of your own may begin with an underscore.",
            id="django_tasks.W008",
        )
        for where, name, near in sorted(set(found))
    ]


def _near(handler: TaskHandler) -> Iterator[tuple[str, str, str]]:
    """Yield (class or function, name, known name) for each name that is nearly a known one.

    A known name that the handler has as well is not what was meant: a class with ``timeout`` and
    ``timeouts`` means both.
    """
    written = list(_written(handler))
    free = _KNOWN.keys() - {name for _, name, _ in written}
    for where, name, value in written:
        alike = free & _HOOKS if isroutine(value) else free - _HOOKS
        near = near_name(name, alike)
        if near and name not in _KNOWN and not isclass(value):
            yield where, name, near


def _written(handler: TaskHandler) -> Iterator[tuple[str, str, Any]]:
    """Yield (class or function, name, value) for everything that the project wrote."""
    yield from _public(registry.describe(handler), vars(handler))
    for each in type(handler).__mro__:
        if each is TaskHandler:
            return
        yield from _public(f"{each.__module__}.{each.__qualname__}", vars(each))


def _public(where: str, names: Any) -> Iterator[tuple[str, str, Any]]:
    for name, value in names.items():
        if not name.startswith("_"):
            yield where, name, value
