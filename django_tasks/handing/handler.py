"""A handler that hands its tasks to another engine."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django_tasks.backoff import Backoff, Duration, Exponential
from django_tasks.exceptions import HandlerError, TaskTypeError, TaskValueError, shortened
from django_tasks.handing import broker, tasks
from django_tasks.handing.identity import call_of
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.running_task import RunningTask
from django_tasks.sentences import sentence as _


class HandOver(TaskHandler):
    """Hand each due task to a function of ``django.tasks`` (Django 6.0) or to a Celery task.

    Subclass this, give ``biz_code``, and either ``to`` or ``celery_task``. The task is finished
    once the other engine has the call, at least once. With ``atomic``, and a TASKS backend that
    keeps its calls in the database of the task, exactly once.

    ``to``              a task of ``django.tasks``, or its dotted path
    ``celery_task``     the name of a Celery task, of which the code may be elsewhere
    ``celery_app``      the Celery application, or its dotted path; None: ``celery_app`` of the
                        package that has the settings, or Celery's default application
    ``celery_options``  further arguments of Celery's ``send_task``, such as
                        ``{"queue": "mail", "priority": 5}``

    An engine that cannot be reached is tried again, after a second at first and then every few
    minutes, for more than a week. Arguments that cannot be sent fail at once.
    """

    to: ClassVar[Any] = None
    celery_task: ClassVar[str | None] = None
    celery_app: ClassVar[Any] = None
    celery_options: ClassVar[Mapping[str, Any]] = {}

    # 150 seconds a try, on average.
    max_attempts: ClassVar[int | None] = 5000
    backoff: ClassVar[Backoff | Duration | Sequence[Duration]] = Exponential(first=1, cap=300)
    fail_on: ClassVar[tuple[type[BaseException], ...]] = (TaskValueError, TypeError)

    def arguments(self, task: RunningTask) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of the call, (args, kwargs).

        By default ``biz_ext`` has them: an object is keyword arguments, a list is arguments, None
        is none. Raises TaskTypeError for any other.
        """
        payload = task.biz_ext
        if payload is None:
            return (), {}
        if isinstance(payload, dict):
            return (), payload
        if isinstance(payload, list):
            return payload, {}
        rule = _("must be an object, a list or None to be arguments; else override arguments()")
        raise TaskTypeError("biz_ext", payload, rule)

    def call_id(self, task: RunningTask) -> str:
        """The id of the call: the same for every try of one run, and another for any other run.

        Up to 161 bytes of UTF-8. A Celery task has it as ``task_id``. Override it if tasks of two
        databases with one alias and one NAME go to one broker.
        """
        return str(call_of(task))

    def handle(self, task: RunningTask) -> None:
        """Hand the task over. Raises HandlerError, and whatever the other engine raises."""
        check_target(self)
        if self.celery_task is None:
            tasks.enqueue(tasks.task_at(self.to), *self.arguments(task))
            return
        call_id = self.call_id(task)  # first: arguments() may change the payload
        args, kwargs = self.arguments(task)
        call = broker.Call(self.celery_task, args, kwargs, call_id, self.celery_options)
        broker.send(broker.application(self.celery_app), call)


def check_target(handler: HandOver) -> None:
    """Raise HandlerError unless a handler hands over to one engine, and to no other."""
    name: Any = handler.celery_task
    if (handler.to is None) == (name is None):
        raise HandlerError(_("it needs one of to and celery_task"))
    if not isinstance(name, str | None):
        raise HandlerError(
            _("celery_task must be the name of a Celery task, not %(name)s", name=shortened(name))
        )
