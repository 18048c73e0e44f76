"""Other handlers, for the length of a test."""

from collections.abc import Callable, Iterator
from typing import Any

from django_tasks.exceptions import TaskTypeError
from django_tasks.handlers import finders, registry
from django_tasks.handlers.base import FunctionHandler, TaskHandler
from django_tasks.testing.decorating import managed


@managed
def override_handlers(
    *handlers: type[TaskHandler] | TaskHandler, **functions: Callable[[Any], Any]
) -> Iterator[None]:
    """Have other handlers in the place of those of their codes; a decorator, too.

    ``handlers`` are classes, instances or functions with ``@task_handler``; of ``functions`` each
    name is a code, and its value, a mock for instance, is called with the task:
    ``override_handlers(cancel_unpaid=Mock(return_value=None))``. All other codes keep theirs. In
    the whole process. Raises HandlerError for one that cannot be registered, and TaskTypeError for
    what cannot be called.
    """
    # Now: a function that is found in the meantime would be forgotten with the others.
    finders.discover()
    made = [_of_function(code, function) for code, function in functions.items()]
    with registry.overridden([*handlers, *made]):
        yield


def _of_function(code: str, function: Any) -> FunctionHandler:
    if not callable(function):
        raise TaskTypeError(code, function, "must be a function of a task")

    def call(task: Any) -> Any:  # a mock has neither name nor module
        return function(task)

    return FunctionHandler(call, code)
