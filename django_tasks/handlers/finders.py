"""Handlers that are made when somebody asks for them: a code may be that of a function which stands
in a module that this process has not imported.
"""

from typing import Protocol

from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import handler_for


class Finder(Protocol):
    """A way to handlers beside the registry. To import a module may take as long as it likes."""

    def is_wanted(self) -> bool:
        """Tell if this project may have such handlers. May call code of the project."""

    def discover(self) -> None:
        """Register those that can be known in advance. For workers, before they start."""

    def problems(self) -> list[str]:
        """One sentence for each of those that cannot be registered."""

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


def known_handler(biz_code: str) -> TaskHandler | None:
    """The handler that this project has of a code, whatever this process has imported so far: what
    may have one is imported by the first question about a code without.
    """
    global _is_asked
    if handler_for(biz_code) is None and not _is_asked:
        _is_asked = True  # first: a module that adds tasks while it is imported asks as well
        discover()
    return handler_for(biz_code)


def has_handler(biz_code: str) -> bool:
    """Tell if this project has a handler of a code. See ``known_handler``."""
    return known_handler(biz_code) is not None


def forget() -> None:
    """Have the next question about a code without a handler discover all anew."""
    global _is_asked
    _is_asked = False


def discover() -> None:
    """Register all handlers that can be known in advance."""
    for finder in _finders:
        if finder.is_wanted():
            finder.discover()


def problems() -> list[str]:
    """One sentence for each handler that was discovered and cannot be registered."""
    return [problem for finder in _finders if finder.is_wanted() for problem in finder.problems()]


def find(biz_code: str, *, using: str) -> bool:
    """Look for the handler of a code; tell if there is one now."""
    for finder in _finders:
        if handler_for(biz_code) is None and finder.is_wanted():
            finder.find(biz_code, using=using)
    return handler_for(biz_code) is not None
