"""Django's signal for calls that have failed for good."""

from contextlib import suppress
from typing import Any

from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_finished

from django_tasks import signals
from django_tasks.functions.attempts import Attempt
from django_tasks.functions.backends import sender_of
from django_tasks.functions.handler import CallHandler
from django_tasks.functions.results import result_of
from django_tasks.handlers.registry import handler_for
from django_tasks.handlers.running_task import RunningTask
from django_tasks.values.calls import id_of


def connect() -> None:
    """Listen to the package's own signal. Called once, at ready."""
    signals.task_failed.connect(_tell, dispatch_uid="django_tasks.functions")


def _tell(sender: Any, *, task: Any, using: str, exception: Any = None, **facts: Any) -> None:
    """Tell of the last attempt of a call.

    Inside of the ``except`` that has caught it, so that Django's own log shows the traceback. A run
    that died with its worker has no exception: its end is written already.
    """
    handler = handler_for(task.biz_code)
    if not isinstance(handler, CallHandler):
        return
    if isinstance(task, RunningTask):
        Attempt(handler, task).failed(exception)
    else:
        _tell_of_row(id_of(task.biz_code, task.biz_num), using)


def _tell_of_row(result_id: str, using: str) -> None:
    with suppress(TaskResultDoesNotExist):  # requeued or cancelled since
        result = result_of(result_id, using=using)
        task_finished.send_robust(sender_of(result.backend), task_result=result)
