"""The task as Django 6's framework has it, or its backport on Django 5.2."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks import tick as plain

# By name: what mypy would find under the backport's is our own package.
_framework: Any = import_module("django.tasks" if find_spec("django.tasks") else "django_tasks")


@_framework.task()  # type: ignore[untyped-decorator]
def tick(number: int) -> None:
    plain.tick(number)
