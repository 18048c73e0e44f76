"""The only place where tests wait: for something to happen, and no longer than a deadline."""

import os
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

# Long: it is spent only when something is broken, and machines that run tests are slow at times.
# Mutants break something each time.
DEADLINE = float(os.environ.get("TEST_DEADLINE", "30"))
LOOK_SECONDS = 0.01


def eventually(
    look: Callable[[], T],
    what: str,
    *,
    deadline: float = DEADLINE,
    log: Callable[[], str] = lambda: "",
) -> T:
    """Look again and again until the answer is true, and return it.

    After ``deadline`` seconds: AssertionError with ``what`` did not happen and what ``log`` says.
    """
    end = monotonic() + deadline
    while not (answer := look()):
        if monotonic() >= end:
            raise AssertionError(f"After {deadline:g} s still not: {what}\n{log()}")
        _pause()
    return answer


def never(look: Callable[[], object], what: str, *, seconds: float) -> None:
    """Look again and again for ``seconds``: the answer must stay false all the time.

    For promises that something does *not* happen; ``seconds`` is as long as it would have taken.
    """
    end = monotonic() + seconds
    while monotonic() < end:
        assert not look(), f"It happened: {what}"
        _pause()


def _pause() -> None:
    """Wait at an Event that nobody else has: handlers with a timeout come here, and an interrupt
    may leave its lock locked. All later waits of a worker at a shared one would not end.
    """
    Event().wait(LOOK_SECONDS)
