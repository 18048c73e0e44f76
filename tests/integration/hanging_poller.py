"""A handler, and a defect: in a process that has this module a poller hangs in its first cycle."""

from threading import Event

from django_tasks.worker.poller import Poller
from tests.integration.handlers import Run

__all__ = ["Run"]


def hang(self: Poller) -> float:
    return float(Event().wait())


Poller._cycle = hang  # type: ignore[method-assign]
