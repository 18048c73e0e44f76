"""Codes that come over and that nobody here takes yet."""

from collections.abc import Iterable

from django_tasks.handlers.finders import has_handler


def without_handler(codes: Iterable[str]) -> list[str]:
    """Those of ``codes`` that no handler of this project has."""
    return sorted(code for code in set(codes) if not has_handler(code))
