"""The run under way: a context variable, so that coroutines and copied contexts have it too.

Set around everything of a project that runs for a task. Needs no models and no settings: the
filter of the log asks it, and that is made before Django's apps are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from django_tasks.handlers.running_task import RunningTask


class Batch(NamedTuple):
    """The tasks of one call of ``handle_batch``."""

    tasks: tuple[RunningTask, ...]


# Set and reset by hand and not by a context manager: that would cost each short run a percent.
CURRENT: ContextVar[RunningTask | Batch | None] = ContextVar("django_tasks_current", default=None)


@contextmanager
def about(subject: RunningTask | Batch) -> Iterator[None]:
    """Set it meanwhile, where no short run comes by."""
    token = CURRENT.set(subject)
    try:
        yield
    finally:
        CURRENT.reset(token)


def current_task() -> RunningTask | None:
    """The task that runs here: in its handler and hooks, in coroutines and in threads that have a
    copy of their context.

    None outside of a run, and in ``handle_batch``, which has all of its tasks.
    """
    current = CURRENT.get()
    return None if isinstance(current, Batch) else current
