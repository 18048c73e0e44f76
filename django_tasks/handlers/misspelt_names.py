"""Attributes of handlers that mean nothing, and look as if they did."""

from collections.abc import Iterator
from inspect import isclass, isroutine
from typing import Any, NamedTuple

from django_tasks.handlers import registry
from django_tasks.handlers.base import TaskHandler, near_name

_PACKAGE = __name__.partition(".")[0]


class Slip(NamedTuple):
    """A ``name`` that the class or function at ``where`` has, and the name that was meant."""

    where: str
    name: str
    meant: str


def slips() -> list[Slip]:
    """The slips of all handlers that are registered; one in a base class once."""
    found = (each for handler in registry.get_task_handlers().values() for each in _of(handler))
    return sorted(set(found))


def _of(handler: TaskHandler) -> Iterator[Slip]:
    """Yield a slip for each name that is nearly a known one.

    A known name that the handler has as well is not what was meant: a class with ``timeout`` and
    ``timeouts`` means both.
    """
    written, known = list(_written(handler)), _known(handler)
    hooks = {name for name, value in known.items() if isroutine(value)}
    free = known.keys() - {name for _, name, _ in written}
    for where, name, value in written:
        alike = free & hooks if isroutine(value) else free - hooks
        near = near_name(name, alike)
        if near and name not in known and not isclass(value):
            yield Slip(where, name, near)


def _known(handler: TaskHandler) -> dict[str, Any]:
    return {
        name: value
        for each in type(handler).__mro__
        if _is_ours(each)
        for name, value in vars(each).items()
        if not name.startswith("_")
    }


def _is_ours(each: type) -> bool:
    return each.__module__.partition(".")[0] == _PACKAGE


def _written(handler: TaskHandler) -> Iterator[tuple[str, str, Any]]:
    """Yield (class or function, name, value) for everything that the project wrote."""
    yield from _public(registry.describe(handler), vars(handler))
    for each in type(handler).__mro__:
        if _is_ours(each):
            return
        yield from _public(f"{each.__module__}.{each.__qualname__}", vars(each))


def _public(where: str, names: Any) -> Iterator[tuple[str, str, Any]]:
    for name, value in names.items():
        if not name.startswith("_"):
            yield where, name, value
