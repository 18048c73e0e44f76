"""Callbacks for the child of a fork.

A child has one thread, and a copy of everything that many threads were using: locks that nobody
will release, lists of workers that do not run there, the pipe that takes notes of the parent's
signals. ``multiprocessing`` forks on Linux up to Python 3.13, in handlers too; web servers fork.
"""

import os
from collections.abc import Callable

_callbacks: list[Callable[[], None]] = []
# Says that a callback failed. ``logs``, which stands above this module, puts its function in.
_report: list[Callable[[BaseException], None]] = []


def in_child(callback: Callable[[], None]) -> Callable[[], None]:
    """Call ``callback`` in every child of a fork, before any other code of ours; a decorator.

    It runs in the only thread that the child has. What it raises is logged, after the other
    callbacks have run.
    """
    _callbacks.append(callback)
    return callback


def on_failure(report: Callable[[BaseException], None]) -> None:
    """Have ``report`` called in the child with what a callback has raised."""
    _report[:] = [report]


def _run() -> None:
    errors: list[BaseException] = []
    for callback in _callbacks:
        try:
            callback()
        except BaseException as error:  # noqa: BLE001 - the others release what would hang
            errors.append(error)
    # At the end: to log may need what a later callback sets right.
    for raised in errors:
        for report in _report:
            report(raised)


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_run)
