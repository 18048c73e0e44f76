"""Logs that go through a queue to a thread of the project's, which a fork does not copy."""

import logging
import threading
from logging.handlers import QueueHandler
from queue import Queue, SimpleQueue

UNREAD = (
    "The log of this process goes into a queue that nobody reads, for the thread of its"
    " QueueListener did not survive the fork: start one in each child, with"
    " os.register_at_fork(after_in_child=...), or run starttask with --processes 1.\n"
)


def is_log_unread(name: str) -> bool:
    """Tell if records of the logger ``name`` pile up in the memory of this process, unread.

    To be asked in the child of a fork before it starts threads: as long as there is only one,
    nobody reads a queue.
    """
    return threading.active_count() == 1 and any(map(_is_queue, _handlers(name)))


def _is_queue(handler: logging.Handler) -> bool:
    # A queue of multiprocessing's is read in another process.
    return isinstance(handler, QueueHandler) and isinstance(handler.queue, Queue | SimpleQueue)


def _handlers(name: str) -> list[logging.Handler]:
    found: list[logging.Handler] = []
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None
    return found
