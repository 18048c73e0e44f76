"""The task as a function of Django 6's tasks framework."""

from importlib import import_module
from typing import Any

from benchmarks import tick as plain

# By name: Django 5.2, with which mypy looks at this, has no such module.
_framework: Any = import_module("django.tasks")


@_framework.task()  # type: ignore[untyped-decorator]
def tick(number: int) -> None:
    plain.tick(number)
