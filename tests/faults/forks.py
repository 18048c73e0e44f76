"""A handler that computes in other processes, by fork: the default up to Python 3.13."""

import signal
from multiprocessing import get_context
from random import random
from threading import Event
from time import monotonic

from tests.faults import journal
from tests.waiting import eventually

CONTEXT = get_context("fork")
# A child that nobody can terminate ends by itself after so long.
SECONDS = 1.5
POOLS = 0.05

_never = Event()


def compute_in_a_pool() -> None:
    """Have a pool compute, now and then. For handlers without a timeout: an interrupt in the middle
    of a pool leaves it waiting for its threads for ever.
    """
    if random() < POOLS:
        with CONTEXT.Pool(1) as pool:
            pool.apply_async(abs, (-1,)).get(SECONDS)


def compute(who: str) -> None:
    """Have a child compute; once it was terminated it must be dead."""
    child = CONTEXT.Process(target=_never.wait, args=(SECONDS,), daemon=True)
    started = monotonic()
    child.start()
    child.terminate()
    # A worker that was stopped in between comes too late: the child may have ended by itself.
    in_time = monotonic() - started < SECONDS
    # Not by join(): of two threads that ask multiprocessing at once, one is told None.
    eventually(lambda: child.exitcode is not None, "the child ends")
    if child.exitcode != -signal.SIGTERM and in_time:
        text = f"A child of {who} was terminated, and ended with {child.exitcode}"
        journal.write("complaint", text=text)
