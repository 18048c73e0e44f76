"""Waiting, always with a limit."""

import time
from collections.abc import Callable

START_SECONDS = 120  # until the first answered query; RabbitMQ took over 60 on a busy machine
STOP_SECONDS = 30  # until SIGKILL
POLL_SECONDS = 0.05


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Tell if the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
