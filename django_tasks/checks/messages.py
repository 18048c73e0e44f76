"""Messages of the checks, and the sentences that settings are refused with."""

from collections.abc import Callable
from typing import Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004

from django_tasks import conf
from django_tasks.sentences import said


def error(number: str, message: str, hint: str | None = None) -> CheckMessage:
    return Error(message, hint=hint, id=f"django_tasks.{number}")


def warning(number: str, message: str, hint: str) -> CheckMessage:
    return Warning(message, hint=hint, id=f"django_tasks.{number}")


def refusals(read: Callable[[], Any]) -> list[str]:
    """The sentence that reading a setting is refused with, if it is."""
    try:
        read()
    except conf.ConfigurationError as refusal:
        return [said(refusal)]
    return []
