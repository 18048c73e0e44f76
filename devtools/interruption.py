"""Ctrl-C and the other signals that ask the command to end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def heeded_signals() -> list[signal.Signals]:
    """Those that ask us to end, unless our caller has us ignore them (as nohup does)."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


def heed_ctrl_c() -> None:
    """Have a child heed Ctrl-C, as its ``preexec_fn``: a shell has programs in the background, and
    all that they start, ignore it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def leave_by_cleaning_up() -> None:
    """Have all of them end us as Ctrl-C does."""
    for number in heeded_signals():
        signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put Ctrl-C and the like off until the end of the block.

    By handlers and not by a mask or SIG_IGN: those two a server started meanwhile would inherit.
    """
    came: list[int] = []
    former = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in heeded_signals()
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt
