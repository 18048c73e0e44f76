"""A worker's place, taken for one claim by another process."""

from collections.abc import Callable
from functools import partial

from django.db import connections

from django_tasks.clock import Clock
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import handler_for
from django_tasks.store.clock import read_clock
from django_tasks.store.connection import close_connections
from django_tasks.worker.apart.child import Seat
from django_tasks.worker.apart.texts import claim_of_text, end_to_text
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.execution import Runner
from django_tasks.worker.timeouts import Timeouts


class Substitute:
    """Stands in for a worker's membership; the worker itself keeps the lease."""

    def __init__(self, seat: Seat) -> None:
        self.worker_id = seat.worker_id
        self.name = seat.name
        self.clock = Clock(read_clock(using=seat.using))

    def is_valid(self) -> bool:
        """The worker has asked a moment ago."""
        return True


def taken(seat: Seat) -> Callable[[str], str]:
    """Take a seat; returns what turns a claim into the end of its run, both as JSON.

    Raises LookupError if the handler is not known here, and errors of the database.
    """
    for alias, name in seat.databases.items():
        connections.settings[alias]["NAME"] = name
    handler = handler_for(seat.biz_code)
    if handler is None:
        raise LookupError(f"no handler of {seat.biz_code!r} is known in this process")
    return partial(_run, Substitute(seat), handler, seat.using)


def _run(standing: Substitute, handler: TaskHandler, using: str, claim: str) -> str:
    loop, timeouts = EventLoop(), Timeouts()
    try:
        runner = Runner(using, standing, loop, timeouts)
        return end_to_text(runner.run(claim_of_text(claim), handler))
    finally:
        timeouts.close()
        loop.close()
        close_connections()
