"""A worker's place, taken for one claim by another process."""

from django.db import connections

from django_tasks.clock import Clock
from django_tasks.registry import handler_for
from django_tasks.store.connection import close_connections
from django_tasks.store.workers import read_clock
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.execution import Runner
from django_tasks.worker.isolated import Seat
from django_tasks.worker.wire import claim_of_text, end_to_text


class Substitute:
    """Stands in for a worker's membership; the worker itself keeps the lease."""

    def __init__(self, seat: Seat) -> None:
        self.worker_id = seat.worker_id
        self.name = seat.name
        self.clock = Clock(read_clock(using=seat.using))

    def is_valid(self) -> bool:
        """The worker has asked a moment ago."""
        return True


def run_in_place(seat: Seat, claim: str) -> str | None:
    """Run a claim in place of its worker and return its end, both as JSON.

    None if its handler is not known here.
    """
    claimed = claim_of_text(claim)
    connections[seat.using].settings_dict["NAME"] = seat.database
    handler = handler_for(claimed.biz_code)
    if handler is None:
        return None
    loop = EventLoop()
    try:
        return end_to_text(Runner(seat.using, Substitute(seat), loop).run(claimed, handler))
    finally:
        loop.close()
        close_connections()
