"""Handlers that are made when somebody asks for them: a code may be that of a function which stands
in a module that this process has not imported.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from django.db import Error

from django_tasks.handlers import registry
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import get_task_handlers, handler_for, recalled
from django_tasks.sentences import sentence as _


class Finder(Protocol):
    """A way to handlers beside the registry. To import a module may take as long as it likes."""

    def is_wanted(self) -> bool:
        """Tell if this project may have such handlers. May call code of the project."""

    def discover(self) -> None:
        """Register those that can be known in advance. For workers, before they start."""

    def problems(self) -> list[str]:
        """One sentence for each of those that cannot be registered."""

    def find_at(self, path: str) -> None:
        """Register the handler of a code that is the path of a function. Raises nothing."""

    def find(self, biz_code: str, *, using: str) -> None:
        """Register the handler of a code that has tasks on the database ``using``, if there is one.

        Called in a thread of its own; database errors pass.
        """


_finders: list[Finder] = []
_is_asked = False


def add_finder(finder: Finder) -> None:
    """Have a finder asked. Twice is nothing."""
    if all(type(each) is not type(finder) for each in _finders):
        _finders.append(finder)


def are_known() -> bool:
    """Tell if there is somebody to ask at all. Calls nobody: for the poller's thread."""
    return bool(_finders)


def are_there() -> bool:
    """Tell if a code that has no handler may still get one."""
    return any(finder.is_wanted() for finder in _finders)


def known_handlers() -> Mapping[str, TaskHandler]:
    """The handlers that can be known in advance, whatever this process has imported so far: what
    may have some is imported by the first question.
    """
    global _is_asked
    if not _is_asked:
        _is_asked = True  # first: a module that adds tasks while it is imported asks as well
        discover()
    return get_task_handlers()


def known_handler(biz_code: str) -> TaskHandler | None:
    """The handler that this project has of a code, as a worker finds it: in advance, or by its
    path. Each code is looked for once: a scrape asks again every few seconds.
    """
    if handler_for(biz_code) is None and biz_code not in known_handlers():
        _find_at(biz_code)
    return recalled(biz_code)


@lru_cache(maxsize=10_000)
def _find_at(path: str) -> None:
    for finder in _finders:
        if finder.is_wanted():
            finder.find_at(path)


def has_handler(biz_code: str) -> bool:
    """Tell if this project has a handler of a code. See ``known_handler``."""
    return known_handler(biz_code) is not None


def forget() -> None:
    """Have the next question about a code without a handler discover all anew."""
    global _is_asked
    _is_asked = False
    _find_at.cache_clear()


def discover() -> None:
    """Register all handlers that can be known in advance."""
    for finder in _finders:
        if finder.is_wanted():
            finder.discover()


def problems() -> list[str]:
    """Discover all handlers; one sentence for each that cannot be registered."""
    discover()
    found = [each for finder in _finders if finder.is_wanted() for each in finder.problems()]
    return [*registry.problems(), *found]


def refusal() -> list[str]:
    """Lines that say why no worker may start; none if nothing is wrong."""
    found = problems()
    return [str(_("Handlers that cannot be registered:")), *map(str, found)] if found else []


def is_found(biz_code: str, *, using: str) -> bool:
    """Tell if there is a handler of a code, also if its module cannot be imported. Errors of the
    database pass.
    """
    try:
        return find(biz_code, using=using)
    except Error:
        raise
    except Exception:  # noqa: BLE001 - its module cannot be imported: there is no such handler
        return False


def find(biz_code: str, *, using: str) -> bool:
    """Look for the handler of a code; tell if there is one now."""
    for finder in _finders:
        if recalled(biz_code) is None and finder.is_wanted():
            finder.find(biz_code, using=using)
    return recalled(biz_code) is not None
