"""The backoff of calls: besides what a handler may have, a function of the error and the result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any

from django_tasks.backoff import ByError, Duration, as_backoff
from django_tasks.exceptions import TaskTypeError
from django_tasks.handlers.running_task import RunningTask
from django_tasks.sentences import sentence as _

if TYPE_CHECKING:
    from django_tasks.functions.handler import CallHandler

# Called with the exception of a run and the TaskResult as of that. Answers a timedelta or seconds;
# None: the call is not tried again.
Judge = Callable[[BaseException, Any], Duration | None]


@dataclass(frozen=True)
class Judged(ByError):
    """The backoff of the calls of one handler that a function says."""

    judge: Judge
    handler: "CallHandler" = field(repr=False, compare=False)

    def delay_after(self, error: BaseException, task: RunningTask) -> Duration | None:
        """The answer of the function. In the thread in which the run is judged; raises anything."""
        from django_tasks.functions.attempts import (
            Attempt,  # it needs the models; functions come first
        )

        return self.judge(error, Attempt(self.handler, task).failure(error))


def checked_backoff(name: str, value: Any) -> Any:
    """A backoff of calls as it was given. Raises TaskTypeError for what is none."""
    try:
        if not is_function(value):
            as_backoff(value)
        elif iscoroutinefunction(value) or not _takes_two(value):
            raise TypeError(_("a function takes (exception, task_result), and is not async"))
    except (TypeError, ValueError) as error:
        raise TaskTypeError(name, value, _("cannot be used (%(error)s)", error=error)) from None
    return value


def is_function(value: Any) -> bool:
    """Tell if a backoff is to be called itself, and is no object with ``delay()``."""
    return callable(value) and not isinstance(value, type) and not hasattr(value, "delay")


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # written in C, without a signature
        return True
    return True
