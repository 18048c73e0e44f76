"""A worker's place, taken for one claim by another process."""

from django.db import connections

from django_tasks.clock import Clock
from django_tasks.outcomes import GiveBack
from django_tasks.registry import handler_for
from django_tasks.store.connection import close_connections
from django_tasks.store.finish import Ended, is_cancelled
from django_tasks.store.workers import roll_call
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.execution import Runner
from django_tasks.worker.isolated import Seat
from django_tasks.worker.wire import claim_of_text, end_to_text


class Substitute:
    """Stands in for a worker's membership; the worker itself keeps the lease."""

    def __init__(self, seat: Seat) -> None:
        """Asks the database for the time, and if the worker is still believed alive."""
        self.worker_id = seat.worker_id
        self.name = seat.name
        reading, peers = roll_call(using=seat.using)
        self.clock = Clock(reading)
        self._is_alive = any(
            peer.id == seat.worker_id and peer.looks_alive(reading.utc) for peer in peers
        )

    def is_valid(self) -> bool:
        """As it was when this process had started, which takes seconds."""
        return self._is_alive


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
        worker = Substitute(seat)
        if not worker.is_valid() or is_cancelled(claimed, using=seat.using):
            return end_to_text(Ended(claimed, GiveBack()))
        return end_to_text(Runner(seat.using, worker, loop).run(claimed, handler))
    finally:
        loop.close()
        close_connections()
