"""The options of one call: those that its row has, and those that go on with it."""

from typing import Any, NamedTuple

from django.tasks.exceptions import InvalidTask

from django_tasks.functions.handler import CallHandler
from django_tasks.functions.options import Defaults
from django_tasks.functions.tasks import AnyTask
from django_tasks.handlers.base import TaskHandler
from django_tasks.sentences import sentence as _
from django_tasks.values.options import NO_OPTIONS, TaskOptions, options_to_text


class CallOptions(NamedTuple):
    """``row`` are those by which our workers run it, ``handed`` (JSON text, as a row has it) those
    by which the backend does to which it is handed.
    """

    row: TaskOptions
    handed: str | None = None


def options_of_call(task: AnyTask, wishes: Defaults, handler: CallHandler) -> CallOptions:
    """The options of a call on the backend with these wishes: what its function does not say.

    Raises TaskTypeError or TaskValueError for one that no row can hold, InvalidTask for a backend
    that cannot have the function's calls.
    """
    given = handler.differing(task)
    terms = {} if task.backend == handler.task.backend else _terms_of_backend(wishes, handler)
    if wishes.to is not None:
        handed = options_to_text(TaskOptions(**given)) if given else None
        return CallOptions(TaskOptions(**terms), handed)
    own = {name: value for name, value in given.items() if terms or not handler.has(name, value)}
    differing = terms | own
    return CallOptions(TaskOptions(**differing) if differing else NO_OPTIONS)


def _terms_of_backend(wishes: Defaults, handler: CallHandler) -> dict[str, Any]:
    if wishes.to is not None and wishes.atomic != bool(handler.atomic):
        raise InvalidTask(
            _(
                "%(path)s stands under another backend, which does not agree with this "
                "one about ATOMIC: name this one in its @task.",
                path=handler.path,
            )
        )
    # The attempts of a call that is handed over are those of its hand-over.
    said = handler.said if wishes.to is None else {}
    terms = {"max_attempts": said.get("max_attempts", wishes.max_attempts)}
    usual = TaskHandler.backoff if wishes.backoff is None else wishes.backoff
    backoff = said.get("backoff", usual)
    return terms if handler.has("backoff", backoff) else terms | {"backoff": backoff}
