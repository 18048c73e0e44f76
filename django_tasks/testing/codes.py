"""Things that a test may name in the place of a code."""

from collections.abc import Iterable
from typing import Any, Protocol

from django_tasks.client.arguments import check_code
from django_tasks.exceptions import HandlerError, TaskTypeError
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import handler_for, instance_of


class Function(Protocol):
    """A ``@task`` function of Django's tasks framework. Under our backends it has a ``biz_code``;
    the others' has none, and no type tells one from the other.
    """

    @property
    def module_path(self) -> str: ...


Handler = TaskHandler | type[TaskHandler] | Function
Code = str | Handler
Codes = Iterable[Code] | Code


def code_of(named: Code, field: str = "code") -> str:
    """The code that is named: as a text, by a handler, or by anything else with a ``biz_code``.

    Raises TaskTypeError for what has none, TaskValueError for what can be none.
    """
    if isinstance(named, str):
        return check_code(named)
    if isinstance(named, TaskHandler):
        return check_code(named.get_biz_code())
    if (code := getattr(named, "biz_code", None)) is None:
        problem = "must be a text, a handler, or a @task function of a backend of this package"
        raise TaskTypeError(field, named, problem)
    return check_code(code)


def codes_of(named: Codes) -> tuple[str, ...]:
    """The codes of some, or of one. Raises as ``code_of``."""
    several: Any = named
    if isinstance(named, str) or not isinstance(named, Iterable):
        several = (named,)
    return tuple(code_of(each, "codes") for each in several)


def handler_of(named: Handler) -> TaskHandler:
    """The handler that is named: itself, one made of its class, or that of a ``@task`` function.

    Raises HandlerError for what is none, TaskTypeError for a function of another backend.
    """
    if not hasattr(named, "module_path"):
        return instance_of(named)
    handler = handler_for(code_of(named))
    if handler is None:
        raise HandlerError(f"{named.module_path} has no handler in this project")
    return handler
