"""A handler that hands its tasks to another engine."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple

from django.db import connections

from django_tasks import payloads
from django_tasks.backoff import Backoff, Duration, Exponential
from django_tasks.exceptions import HandlerError, TaskTypeError, TaskValueError, shortened
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.running_task import RunningTask
from django_tasks.handover import broker, tasks
from django_tasks.sentences import sentence as _
from django_tasks.timezones import aware

# Receivers store names of 191 characters and more; a message of AMQP has 255 bytes for one.
KEY_BYTES = 100
DIGEST_LENGTH = 16


class RunIdentity(NamedTuple):
    """The facts by which a run is known: what a retry and a rescue leave as it was, and an add, a
    move or the next run changes.

    ``place`` tells databases apart, of which each numbers its rows from 1. ``before``: of a run
    that was wanted before its time, the number of good ones before it.
    """

    place: str
    key: str
    row_id: int
    due: datetime
    payload: str | None
    before: tuple[str, ...] = ()

    def __str__(self) -> str:
        begin = self.key.encode(errors="replace")[:KEY_BYTES].decode(errors="ignore")
        due = self.due.astimezone(timezone.utc)
        facts = [self.place, self.key, self.payload or "", *self.before]
        digest = sha256("\0".join(facts).encode(errors="replace")).hexdigest()[:DIGEST_LENGTH]
        return f"{begin}:{self.row_id}:{due:%Y%m%dT%H%M%S.%f}Z:{digest}"


def call_of(task: RunningTask) -> RunIdentity:
    """The call that a run hands over.

    Race: the task is added again while this run goes on, or after its worker has died. Then its
    time or its payload is another, and so is the call; with both the same, it is the same call.
    """
    return RunIdentity(
        place=f"{task.using} {connections[task.using].settings_dict['NAME']}",
        key=f"{task.biz_code}:{task.biz_num}",
        row_id=task.id,
        due=task.planned or aware("scheduled_time", task.scheduled_time),
        payload=payloads.encoded(task.biz_ext),
        before=(str(task.runs - task.attempts),) if task.planned else (),
    )


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
        call = broker.BrokerCall(self.celery_task, args, kwargs, call_id, self.celery_options)
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
