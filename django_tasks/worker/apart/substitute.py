"""A worker's place, taken for one claim by another process."""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from django.db import connections

from django_tasks import logs
from django_tasks.clock import Clock
from django_tasks.exceptions import TaskTimeout
from django_tasks.handlers import finders
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.companions import take_leave
from django_tasks.handlers.registry import handler_for
from django_tasks.store.clock import read_clock
from django_tasks.store.connection import close_connections, own_connections
from django_tasks.store.finish import Ended
from django_tasks.values.outcomes import Retry
from django_tasks.worker.apart.child import Seat
from django_tasks.worker.apart.texts import claim_of_text, end_to_text
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.execution import Runner
from django_tasks.worker.run import Run
from django_tasks.worker.timeouts import Timeouts

# How long hooks and receivers have when a run has cost this process.
LAST_WORDS_SECONDS = 2.0


class Substitute:
    """Stands in for a worker's membership; the worker itself keeps the lease."""

    def __init__(self, seat: Seat) -> None:
        self.worker_id = seat.worker_id
        self.name = seat.name
        self.clock = Clock(read_clock(using=seat.using))

    def is_valid(self) -> bool:
        """The worker has asked a moment ago."""
        return True


def taken(seat: Seat, say: Callable[[str], None]) -> Callable[[str], str]:
    """Take a seat; returns what turns a claim into the end of its run, both as JSON.

    ``say`` answers with the end of a run that has not ended by its ``kill_after``: then this
    process ends. Raises LookupError if the handler is not known here, and errors of the database.
    """
    for alias, name in seat.databases.items():
        connections.settings[alias]["NAME"] = name
    handler = handler_for(seat.biz_code)
    if handler is None and finders.find(seat.biz_code, using=seat.using):
        handler = handler_for(seat.biz_code)
    if handler is None:
        raise LookupError(f"no handler of {seat.biz_code!r} is known in this process")
    return partial(_run, Substitute(seat), handler, seat.using, say)


def _run(
    standing: Substitute, handler: TaskHandler, using: str, say: Callable[[str], None], claim: str
) -> str:
    loop, timeouts = EventLoop(), Timeouts()
    own_connections()
    try:
        runner = Runner(using, standing, loop, timeouts)
        timeouts.on_kill(partial(_give_up, runner, say))
        return end_to_text(runner.run(claim_of_text(claim), handler))
    finally:
        timeouts.close()
        loop.close()
        close_connections()


def _give_up(
    runner: Runner, say: Callable[[str], None], runs: Sequence[Run], error: TaskTimeout
) -> None:
    """End a run that does not end, and with it this process. The row stays as suspect as it was."""

    def write(ends: Sequence[Ended]) -> None:
        (end,) = ends
        if isinstance(end.outcome, Retry):
            end = end._replace(outcome=replace(end.outcome, is_suspect=True))
        say(end_to_text(end))
        guard = threading.Timer(LAST_WORDS_SECONDS, os._exit, (1,))
        guard.daemon = True
        guard.start()

    logs.killing(runs[0].task, error)
    try:
        runner.give_up(runs, error, write)
    finally:
        take_leave()
        os._exit(1)
