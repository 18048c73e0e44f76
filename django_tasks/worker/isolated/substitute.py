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
from django_tasks.logs.patient import PatientLog
from django_tasks.store.clock import read_clock
from django_tasks.store.connection import close_connections, own_connections
from django_tasks.store.finish import Ended
from django_tasks.values.outcomes import Retry, Settled
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.execution import Runner
from django_tasks.worker.isolated.child import Seat
from django_tasks.worker.isolated.texts import claim_of_text, end_to_text
from django_tasks.worker.run import Run
from django_tasks.worker.timeouts import Timeouts

# How long hooks and receivers have when a run has cost this process.
LAST_WORDS_SECONDS = 10.0


class Substitute:
    """Stands in for a worker's membership; the worker itself keeps the lease."""

    def __init__(self, seat: Seat) -> None:
        self.worker_id = seat.worker_id
        self.name = seat.name
        self.clock = Clock(read_clock(using=seat.using))

    def is_valid(self, now: float | None = None) -> bool:
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
        text = end_to_text(end := runner.run(claim_of_text(claim), handler))
        if isinstance(end.outcome, Settled):
            say(text)  # it is written already: before another one is, of which the first counts
        return text
    finally:
        timeouts.close()
        timeouts.await_told()  # of a run that was given up as it ended: that ends this process
        loop.close()
        close_connections()


def _give_up(
    runner: Runner, say: Callable[[str], None], runs: Sequence[Run], error: TaskTimeout
) -> None:
    """End a run that does not end, and with it this process. The row stays as suspect as it was.

    As in a worker its end is told as the last act: hooks and receivers come before, up to a time.
    """
    ends: list[Ended] = []

    def end() -> None:
        try:
            for each in ends:
                say(end_to_text(each))
        finally:
            os._exit(1)

    def write(given_up: Sequence[Ended]) -> None:
        (told,) = given_up
        if isinstance(told.outcome, Retry):
            told = told._replace(outcome=replace(told.outcome, is_suspect=True))
        ends.append(told)
        logs.killing(runs[0].task, error)

    logs.send_through(PatientLog().post)
    guard = threading.Timer(LAST_WORDS_SECONDS, end)
    guard.daemon = True
    try:
        guard.start()
        runner.give_up(runs, error, write)
    finally:
        take_leave()
        end()
        guard.cancel()
