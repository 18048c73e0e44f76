"""A log handler that hangs over a stop, and settings that have it."""

import logging
from threading import Event

from tests.integration.settings import *  # noqa: F403


class Hanging(logging.StreamHandler):  # type: ignore[type-arg]
    """As a handler that sends its lines to a server which takes them and never answers."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if vars(record)["event"] == "stopping":
            Event().wait()


LOGGING = {
    "version": 1,
    "handlers": {"hanging": {"class": "tests.integration.hanging_stop.Hanging"}},
    "loggers": {"django_tasks": {"handlers": ["hanging"], "level": "INFO"}},
}
