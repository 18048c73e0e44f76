"""A handler, and a defect: in a process that has this module a poller ends at its first cycle."""

from typing import NoReturn

from django_tasks.worker.poller import Poller
from tests.integration.handlers import Run

__all__ = ["Run"]


def end(self: Poller) -> NoReturn:
    raise SystemExit("a defect")


Poller.run_once = end  # type: ignore[method-assign]
