"""Callbacks for the child of a fork.

A child has one thread, and a copy of everything that many threads were using: locks that nobody
will release, lists of workers that do not run there, the pipe that takes notes of the parent's
signals. ``multiprocessing`` forks on Linux up to Python 3.13, in handlers too; web servers fork.
"""

import os
from collections.abc import Callable

_callbacks: list[Callable[[], None]] = []


def in_child(callback: Callable[[], None]) -> Callable[[], None]:
    """Call ``callback`` in every child of a fork, before any other code of ours; a decorator.

    It runs in the only thread that the child has. What it raises is printed and ends nothing.
    """
    _callbacks.append(callback)
    return callback


def _run() -> None:
    for callback in _callbacks:
        callback()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_run)
