"""Functions of ``django.tasks``, as a project has them. Imported with Django 6.0 and later."""

from typing import Any

from django.tasks import task


@task
def cancel(number: int) -> int:
    return number


@task(backend="database")
def cancel_in_database(number: int) -> int:
    return number


def no_task() -> Any:
    """The decorator has been forgotten."""
