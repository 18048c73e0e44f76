"""Django's log of calls: a line that nobody would see is not made, for it costs more than a run."""

import logging
from typing import Any
from weakref import ref

from django.conf import settings
from django.dispatch import Signal
from django.tasks import signals
from django.utils.log import RequireDebugTrue

logger = logging.getLogger("django.tasks")


def is_heard(signal: Signal, level: int) -> bool:
    """Tell if somebody listens: a receiver besides Django's own, which only logs, or a log."""
    return any(_is_strange(each) for each in signal.receivers) or is_logged(level)


def _is_strange(receiver: Any) -> bool:
    """Tell if a receiver is not Django's own; it is kept as it is, or by a weak reference."""
    found = receiver[1]() if isinstance(receiver[1], ref) else receiver[1]
    return getattr(found, "__module__", "") != signals.__name__


def is_logged(level: int) -> bool:
    """Tell if a line of this level may be seen. Unknown filters let it pass.

    By default Django has a handler for the console that shows nothing where DEBUG is False.
    """
    if not logger.isEnabledFor(level):
        return False
    # Sentry and others look at lines before any handler does, by a method of their own.
    if logging.Logger.callHandlers.__module__ != logging.__name__ or not logger.hasHandlers():
        return True
    return any(_takes(handler, level) for handler in _handlers())


def _handlers() -> list[logging.Handler]:
    found: list[logging.Handler] = []
    each: logging.Logger | None = logger
    while each is not None:
        found += each.handlers
        each = each.parent if each.propagate else None
    return found


def _takes(handler: logging.Handler, level: int) -> bool:
    if level < handler.level:
        return False
    return settings.DEBUG or not any(type(each) is RequireDebugTrue for each in handler.filters)
