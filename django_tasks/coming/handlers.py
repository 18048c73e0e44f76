"""Codes that come over and that nobody here takes yet."""

from collections.abc import Iterable

from django_tasks.handlers.registry import get_task_handlers


def without_handler(codes: Iterable[str]) -> list[str]:
    """Those of ``codes`` that no handler of this project has."""
    return sorted(set(codes) - set(get_task_handlers()))
