"""The handler of the calls of one function."""

from collections.abc import Mapping
from inspect import iscoroutinefunction, signature
from typing import Any

from asgiref.sync import sync_to_async
from django.tasks.exceptions import InvalidTask

from django_tasks.functions.backoff import Judged, is_function
from django_tasks.functions.options import Defaults
from django_tasks.functions.tasks import AnyTask, KeyedTask
from django_tasks.handlers.base import Stop, TaskHandler
from django_tasks.handlers.running_task import RunningTask
from django_tasks.sentences import sentence as _
from django_tasks.values.calls import told_of_text
from django_tasks.values.hosts import is_schedule_num

ATTEMPTS = ("max_attempts", "backoff")


class CallHandler(TaskHandler):
    """Runs the calls of the function of a ``@task``. Made where that stands above the function."""

    def __init__(self, code: str, task: AnyTask, wishes: Defaults, own: Mapping[str, Any]) -> None:
        """``wishes`` are those of the task's backend, ``own`` the attributes of the function."""
        self.code = code
        self.path = task.module_path
        self.task = task
        # All that the function says itself: ``@options`` comes before ``@task``.
        self.said = {**given(task), **own}
        attributes: dict[str, Any] = {
            "max_attempts": wishes.max_attempts,
            "history": wishes.results,
            "queue": task.queue_name,
            "priority": task.priority,
            "atomic": wishes.atomic,
        }
        if wishes.backoff is not None:
            attributes["backoff"] = wishes.backoff
        if wishes.to is None:
            attributes |= self.said
        else:  # its attempts are those of the backend that runs it
            attributes |= {name: value for name, value in own.items() if name not in ATTEMPTS}
        if is_function(attributes.get("backoff")):
            attributes["backoff"] = Judged(attributes["backoff"], self)
        if iscoroutinefunction(task.func) and wishes.to is None:
            attributes["handle"] = self._handle_async
        # Its place is that of its function, wherever somebody names it: see ``describe``.
        place = {"__module__": task.func.__module__, "__qualname__": task.func.__qualname__}
        self.__dict__.update(attributes, biz_code=code, **place)
        if self.schedule is not None:
            _check_scheduled(task)

    def differing(self, task: AnyTask) -> dict[str, Any]:
        """The options that ``using()`` has given to a task of the function."""
        own = given(self.task)
        return {name: value for name, value in given(task).items() if value != own.get(name)}

    def has(self, name: str, value: Any) -> bool:
        """Tell if an option is that of this handler."""
        own = getattr(self, name)
        return bool((own.judge if isinstance(own, Judged) else own) == value)

    def handle(self, task: RunningTask) -> Any:
        """Call the function; the history keeps what it returns."""
        attempt = _attempt(self, task)
        if attempt.target is not None:
            return attempt.handed_over()
        attempt.begin()
        call = self.task.call if iscoroutinefunction(self.task.func) else self.task.func
        return attempt.finished(call(*attempt.args, **attempt.kwargs))

    async def _handle_async(self, task: RunningTask) -> Any:
        attempt = await sync_to_async(_attempt)(self, task)
        if attempt.target is not None:
            return await sync_to_async(attempt.handed_over)()
        await sync_to_async(attempt.begin)()
        value = await self.task.func(*attempt.args, **attempt.kwargs)
        return await sync_to_async(attempt.finished)(value)

    def _note(self, payload: str | None) -> str | None:
        return payload if told_of_text(payload) else None


class FormerHandler(CallHandler):
    """Runs calls that wait under the code that a function had in an earlier release.

    Its schedule has a row under the code of today. That of the former code ends, after a run of
    what came due before the other was there.
    """

    def __init__(self, code: str, today: CallHandler) -> None:
        own = {"biz_code": code, "schedule": None, "sticky": False, "each_host": False}
        self.__dict__ |= today.__dict__ | own
        self.__dict__.pop("handle", None)  # a coroutine function's is bound to ``today``

    def handle(self, task: RunningTask) -> Any:
        from django_tasks.models import Task

        if not is_schedule_num(task.biz_num):
            return super().handle(task)
        rows = Task._base_manager.using(task.using).filter(biz_code=self.code, biz_num=task.biz_num)
        if not rows.filter(create_time__lte=task.scheduled_time).exists():
            super().handle(task)
        return Stop


def given(task: AnyTask) -> dict[str, Any]:
    """The options of a task that are not None, by name."""
    return task.given() if isinstance(task, KeyedTask) else {}


def _attempt(handler: CallHandler, task: RunningTask) -> Any:
    from django_tasks.functions.attempts import (
        Attempt,  # it needs the models; functions come before
    )

    return Attempt(handler, task)


def _check_scheduled(task: AnyTask) -> None:
    """Raise InvalidTask if nobody could call the function at the times of its schedule."""
    try:
        signature(task.func).bind(*(["context"] if task.takes_context else []))
    except TypeError as error:
        raise InvalidTask(
            _(
                "%(module_path)s has a schedule, so it must need no arguments: %(error)s",
                module_path=task.module_path,
                error=error,
            )
        ) from None
