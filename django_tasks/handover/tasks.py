"""Calls for functions of ``django.tasks``, which comes with Django 6.0."""

from collections.abc import Mapping, Sequence
from typing import Any

import django

from django_tasks.exceptions import HandlerError, shortened
from django_tasks.handover.places import object_at
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _


def task_at(to: Any) -> Any:
    """The ``django.tasks.Task`` that ``to`` is, or names. Raises HandlerError if there is none."""
    if django.VERSION < (6, 0):
        raise HandlerError(
            _(
                "Django %(version)s has no django.tasks: 6.0 is the first",
                version=django.get_version(),
            )
        )
    from django.tasks import Task

    found = object_at(to) if isinstance(to, str) else to
    if not isinstance(found, Task):
        raise HandlerError(_("%(to)s is no task: write @task above the function", to=shortened(to)))
    return found


def backend_of(task: Any) -> Any:
    """The TASKS backend of a task. Raises HandlerError if the settings have none of its name."""
    from django.tasks.exceptions import InvalidTaskBackend

    try:
        return task.get_backend()
    except InvalidTaskBackend as error:
        raise HandlerError(said(error)) from error


def enqueue(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Enqueue a call at the backend of its task; returns its ``TaskResult``.

    In a transaction of the backend's database it is part of that. Raises HandlerError for a task
    that its backend refuses, and whatever the backend raises: TypeError or ValueError for arguments
    that are no JSON, an error of its own if it cannot be reached.
    """
    from django.tasks.exceptions import InvalidTask

    try:
        return backend_of(task).enqueue(task, list(args), dict(kwargs))
    except InvalidTask as error:
        raise HandlerError(
            _("%(module_path)s: %(error)s", module_path=task.module_path, error=error)
        ) from error
