"""Settings of a project whose log goes through a queue to a thread, as Python's cookbook has it."""

import logging
import os
import sys
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue

from tests.integration.settings import *  # noqa: F403

LOGGING_CONFIG = None

handler: QueueHandler = QueueHandler(SimpleQueue())
target = logging.StreamHandler(sys.stderr)
target.setFormatter(logging.Formatter("read in %(process)d: %(message)s"))
logging.basicConfig(level="INFO", handlers=[handler])


def listen() -> None:
    handler.queue = SimpleQueue()
    QueueListener(handler.queue, target).start()


listen()
if os.environ.get("LISTEN_AGAIN"):
    os.register_at_fork(after_in_child=listen)
