"""Calls of ``@task`` functions as tasks: see ``django_tasks.backend``. Needs Django 6.0."""

from typing import Any

from django.core.signals import setting_changed


def connect() -> None:
    """Have workers find functions, and Django's receivers hear of failures. Called at ready."""
    from django_tasks.functions import declared, failures
    from django_tasks.functions.finding import FunctionFinder
    from django_tasks.handlers.finders import add_finder

    for early in declared.EARLY:
        declared.note(*early)
    add_finder(FunctionFinder())
    failures.connect()
    setting_changed.connect(_forget, dispatch_uid="django_tasks.functions")


def _forget(*, setting: str, **facts: Any) -> None:
    if setting == "TASKS":
        from django_tasks.functions import declared, finding
        from django_tasks.handlers import finders

        declared.forget()
        finding.forget()
        finders.forget()
