"""Calls of Django's ``@task`` functions as tasks of ours. Needs Django 6.0.

``TASKS = {"default": {"BACKEND": "django_tasks.backend.DatabaseBackend"}}``. A call is a row, its
function is its code, and the id of its result is its key: ``code:number``.
"""

import django
from django.core.exceptions import ImproperlyConfigured

from django_tasks.sentences import said
from django_tasks.sentences import sentence as _

if django.VERSION < (6, 0):
    raise ImproperlyConfigured(
        _(
            "django_tasks.backend needs Django 6.0, whose django.tasks it is a "
            "backend of; on Django 5.2 there is only the backport django-tasks, "
            "which has the import name of this package. add_task() and TaskHandler "
            "work on every Django."
        )
    )

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.tasks import task_backends
from django.tasks.exceptions import InvalidTask
from django.tasks.signals import task_enqueued

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.functions.backends import RowBackend, way_from
from django_tasks.functions.backoff import checked_backoff
from django_tasks.functions.declared import code_for, note
from django_tasks.functions.hearing import is_heard
from django_tasks.functions.options import options
from django_tasks.functions.tasks import AnyTask, KeyedTask, after, for_backend, restored
from django_tasks.functions.terms import options_of_call
from django_tasks.host.clocks import EPOCH
from django_tasks.values.calls import longest_key
from django_tasks.values.conflicts import checked_conflict, debounce_terms
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.keys import QUEUE_LENGTH, check_key, check_new
from django_tasks.values.options import MOST_ATTEMPTS, TaskOptions

__all__ = [
    "DatabaseBackend",
    "KeyedTask",
    "OutboxBackend",
    "aenqueue_many",
    "enqueue_many",
    "options",
]


class DatabaseBackend(RowBackend):
    """A backend whose calls are rows of the project's own database.

    ``enqueue`` is one statement of the caller's transaction. OPTIONS, all of them optional:

    ``DATABASE``      an alias; by default what the routers say
    ``MAX_ATTEMPTS``  failed runs before a call is FAILED, by default 1
    ``BACKOFF``       as ``TaskHandler.backoff``, or a function ``(exception, task_result)`` that
                      answers seconds, a timedelta, or None: it is not tried again. As
                      MAX_ATTEMPTS for functions that say nothing themselves
    ``RESULTS``       results that are kept: "all", "problems" or "none"
    ``MODULES``       modules outside of INSTALLED_APPS that workers may import
    """

    task_class = KeyedTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: AnyTask) -> None:
        """Raise InvalidTask for a task that cannot be enqueued here."""
        super().validate_task(_as_of_django(task))
        try:
            check_new("queue_name", check_key("queue_name", task.queue_name, QUEUE_LENGTH))
            if isinstance(task, KeyedTask):
                _check_terms(task)
            if (handler := note(task, self.wishes)) is not None:
                options_of_call(task, self.wishes, handler)
        except (TaskTypeError, TaskValueError) as error:
            raise InvalidTask(said(error)) from error

    def enqueue(self, task: AnyTask, args: Any, kwargs: Any) -> Any:
        """Store a call; returns its result, or that of the call that stands under its key.

        Atomic, and part of the caller's transaction. Raises InvalidTask; TypeError for arguments
        that are not JSON, TaskValueError for those that cannot be stored, TaskExists as
        ``on_conflict`` says.
        """
        from django_tasks.functions.enqueueing import Enqueueing  # it needs the models

        self.validate_task(task)
        result, is_new = Enqueueing(task, self.wishes, self.alias).one(args, kwargs)
        if is_new and is_heard(task_enqueued, logging.DEBUG):
            task_enqueued.send_robust(type(self), task_result=result)
        return result

    def enqueue_many(self, task: AnyTask, calls: Iterable[Any]) -> list[Any]:
        """Store a call for each pair of arguments and keyword arguments: see ``enqueue_many``."""
        from django_tasks.functions.enqueueing import Enqueueing

        self.validate_task(task)
        if isinstance(task, KeyedTask) and task.key is not None:
            raise InvalidTask(_("key goes with one call, not with many: %(key)r", key=task.key))
        results = Enqueueing(task, self.wishes, self.alias).many(calls)
        for result in results if is_heard(task_enqueued, logging.DEBUG) else ():
            task_enqueued.send_robust(type(self), task_result=result)
        return results

    def get_result(self, result_id: str) -> Any:
        """The result of a call, from its row or from its runs. Raises TaskResultDoesNotExist.

        After a call has ended it is there as long as the history is: see HISTORY_AGE.
        """
        from django_tasks.functions.results import result_of

        # Not from a replica: it may not have heard of a call that has just been enqueued.
        return result_of(result_id, using=self.database)

    def own_problems(self) -> list[str]:
        """Sentences about OPTIONS that do not go together."""
        return []

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """E007, E008, E012, W010, W012, W014"""
        if not apps.is_installed("django_tasks"):  # nor are there models, which all below needs
            place = f"TASKS[{self.alias!r}]"
            problem = _("%(place)s needs 'django_tasks' in INSTALLED_APPS.", place=place)
            return [Error(problem, id="django_tasks.E007")]
        from django_tasks.functions.checks import messages

        return list(messages(self, self.own_problems()))


class OutboxBackend(DatabaseBackend):
    """A backend that hands its calls to another one when they are due.

    ``OPTIONS = {"TO": "celery"}``: a call is a row until then, of the caller's transaction, with a
    key, a time as far away as you like, and cancelling; from then on it is a call of the backend of
    that alias, which runs it. At least once: if that backend does not answer, the call is handed to
    it again. Exactly once with ``"ATOMIC": True``, if it keeps its calls in the database of ours.

    OPTIONS besides: those of ``DatabaseBackend``. MAX_ATTEMPTS and BACKOFF are those of the
    hand-over, by default 10,000 attempts: a broker that is down for a night costs no call.
    ``max_attempts``, ``backoff`` and ``timeout`` of a task go on to the other backend, if its tasks
    have them.
    """

    defaults = DatabaseBackend.defaults | {
        "MAX_ATTEMPTS": MOST_ATTEMPTS,
        "TO": None,
        "ATOMIC": False,
    }

    def validate_task(self, task: AnyTask) -> None:
        """Raise InvalidTask for a task that cannot be enqueued here, or there."""
        if problems := self.own_problems():
            raise InvalidTask(
                _("TASKS[%(alias)r]: %(problems)s.", alias=self.alias, problems=problems[0])
            )
        super().validate_task(task)
        for_backend(task, str(self.wishes.to))

    def own_problems(self) -> list[str]:
        target = self.wishes.to
        if target is None or target not in task_backends.settings:
            return [
                _(
                    "OPTIONS: TO must be the alias of another backend of TASKS, not %(target)r",
                    target=target,
                )
            ]
        if self.alias in way_from(target):
            return [_("OPTIONS: TO leads back to this backend, by %(target)r", target=target)]
        return []


def enqueue_many(task: AnyTask, calls: Iterable[Any]) -> list[Any]:
    """Enqueue many calls of a task, all or none; returns their results in order.

    ``calls`` are pairs ``(args, kwargs)``. A few statements in one transaction. Raises InvalidTask
    for a task of another backend, or one with a key; otherwise as ``enqueue``.
    """
    backend = task.get_backend()
    if not isinstance(backend, DatabaseBackend):
        raise InvalidTask(
            _(
                "%(module_path)s is a task of another backend, %(backend)r.",
                module_path=task.module_path,
                backend=task.backend,
            )
        )
    return backend.enqueue_many(task, calls)


aenqueue_many = sync_to_async(enqueue_many)


def _as_of_django(task: AnyTask) -> AnyTask:
    """A task as Django validates it: a delay is some moment. Raises InvalidTask."""
    delay: Any = task.run_after
    if not isinstance(delay, timedelta):
        return task
    stand_in: AnyTask = restored(task, run_after=after(EPOCH, delay))
    return stand_in


def _check_terms(task: KeyedTask) -> None:
    if task.key is not None:
        check_new("key", check_key("key", task.key, longest_key(code_for(task.func))))
        if is_schedule_num(task.key):
            raise TaskValueError("key", task.key, _("belongs to the schedule of the function"))
    elif task.on_conflict != "replace":
        raise TaskValueError("on_conflict", task.on_conflict, _("goes with a key"))
    if debounce_terms(task.on_conflict, task.wait, task.at_most) is None:
        checked_conflict(task.on_conflict)
    elif task.run_after is not None:
        raise TaskValueError("run_after", task.run_after, _("must be left out: wait says when"))
    given = task.given()
    if "backoff" in given:  # there may be more than a row can hold
        checked_backoff("backoff", given.pop("backoff"))
    TaskOptions(**given)
