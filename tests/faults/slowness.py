"""Code of a project that takes two leases: receivers, hooks, and handlers of its log.

Seldom, because nothing would be done any more, but anywhere: whoever waits for such code must not
be the one that sends heartbeats. Each nap is journalled.
"""

import logging
import os
import threading
from threading import Event, Lock
from time import monotonic
from typing import Any

from django_tasks import signals
from tests.faults import journal
from tests.faults.habits import on

LEASE = float(os.environ.get("FAULTS_LEASE", "3"))
NAP = 2 * LEASE
# From the beginning of one to that of the next, of one kind in one process; and of all in a thread.
BETWEEN = 6 * LEASE

_never = Event()
_own = threading.local()


class Naps:
    """One kind of code: it takes a nap if its last one is long ago."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._last = float("-inf")
        self._lock = Lock()

    def take(self) -> None:
        """Take a nap if it is time; whoever else comes meanwhile is let through."""
        with self._lock:
            since = monotonic()
            if since - max(self._last, getattr(_own, "last", self._last)) < BETWEEN:
                return
            self._last = _own.last = since
        _never.wait(NAP)
        journal.write("nap", what=self._what, parent=os.getppid(), **{"from": since})


class SlowLog(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error, as the worker's own would, and takes naps over it.

    Others who log wait meanwhile: ``logging`` holds a handler's lock while it works.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
        self._naps = Naps("log")

    def emit(self, record: logging.LogRecord) -> None:
        self._naps.take()
        super().emit(record)


_HOOKS = {name: Naps(name) for name in ("on_failure", "on_stuck")}


def hook(name: str) -> None:
    """Be a slow hook of a handler, if that is a habit."""
    if on("slow-receivers"):
        _HOOKS[name].take()


def install() -> None:
    """Connect slow receivers and a slow log to this process, if that is a habit."""
    if on("slow-receivers"):
        for name in ("task_lost", "task_rescued", "task_failed"):
            getattr(signals, name).connect(_receiver(name), weak=False)
    if on("slow-logs"):
        logger = logging.getLogger("django_tasks")
        logger.addHandler(SlowLog())
        logger.setLevel(logging.INFO)


def _receiver(name: str) -> Any:
    naps = Naps(name)
    return lambda **_: naps.take()
