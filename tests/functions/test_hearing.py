"""A line of Django's log that nobody would see is not made."""

import logging
from typing import Any

import pytest
from django.dispatch import Signal
from django.tasks.signals import log_task_started
from django.utils.log import RequireDebugTrue

from django_tasks.functions import hearing
from django_tasks.functions.hearing import is_heard, is_logged


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """A logger at INFO below one that has a handler for errors only."""
    above, below = logging.Logger("above"), logging.Logger("below", logging.INFO)
    below.parent = above
    above.addHandler(logging.NullHandler(logging.ERROR))
    monkeypatch.setattr(hearing, "logger", below)
    return below


def console() -> logging.Handler:
    """Django's own handler for the console, as it is by default."""
    handler = logging.NullHandler(logging.INFO)
    handler.addFilter(RequireDebugTrue())
    return handler


def test_a_level_that_no_handler_takes_is_not_logged(logger: logging.Logger) -> None:
    assert not is_logged(logging.INFO)
    assert is_logged(logging.ERROR)


def test_a_logger_that_is_not_enabled_logs_nothing(logger: logging.Logger) -> None:
    logger.addHandler(logging.NullHandler())
    assert not is_logged(logging.DEBUG)
    assert is_logged(logging.INFO)


def test_djangos_console_shows_lines_under_debug_only(
    logger: logging.Logger, settings: Any
) -> None:
    logger.addHandler(console())
    settings.DEBUG = False
    assert not is_logged(logging.INFO)
    settings.DEBUG = True
    assert is_logged(logging.INFO)


def test_a_filter_that_is_not_known_may_let_a_line_pass(logger: logging.Logger) -> None:
    handler = console()
    handler.filters = [lambda record: False]
    logger.addHandler(handler)
    assert is_logged(logging.INFO)


def test_handlers_above_count_if_the_logger_tells_them(logger: logging.Logger) -> None:
    assert logger.parent is not None
    logger.parent.addHandler(logging.NullHandler())
    assert is_logged(logging.INFO)
    logger.propagate = False
    logger.addHandler(console())
    assert not is_logged(logging.INFO)


def test_without_any_handler_the_last_resort_of_python_decides(logger: logging.Logger) -> None:
    logger.propagate = False
    assert is_logged(logging.INFO)


def test_a_tool_that_looks_at_lines_before_handlers_hears_them(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call_handlers(self: logging.Logger, record: logging.LogRecord) -> None:
        """As Sentry puts one in its place."""

    monkeypatch.setattr(logging.Logger, "callHandlers", call_handlers)
    assert is_logged(logging.INFO)


def test_a_receiver_besides_djangos_own_hears_a_signal(logger: logging.Logger) -> None:
    signal = Signal()
    assert not is_heard(signal, logging.INFO)
    signal.connect(log_task_started)
    assert not is_heard(signal, logging.INFO)
    signal.disconnect(log_task_started)
    signal.connect(console)  # a sole one is heard as well
    assert is_heard(signal, logging.INFO)
