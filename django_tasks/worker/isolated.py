"""The program that runs one claim in place of a worker: see ``isolation``.

    python -m django_tasks.worker.isolated ANSWER

Reads the job from its input, and writes the end of the run into the file ANSWER.
"""

import os
import pickle
import select
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

# The exit code where this process cannot run the task as the worker would.
CANNOT = 86
GLANCE_MILLISECONDS = 1000


class Seat(NamedTuple):
    """The worker in whose place a claim is run, and the name of its database."""

    using: str
    database: str
    worker_id: int
    name: str


def main(answer: str) -> int:
    """Run the job on the input; returns the exit code."""
    length = int.from_bytes(sys.stdin.buffer.read(8), "big")
    job = sys.stdin.buffer.read(length)
    parent = os.getppid()
    threading.Thread(
        target=_end_with, args=(parent,), name="django_tasks-parent", daemon=True
    ).start()
    try:
        run = _set_up()
        seat, claimed = pickle.loads(job)  # noqa: S301 - written by our own parent
    except Exception:  # noqa: BLE001 - then the worker runs the task itself
        return CANNOT
    ended = run(seat, claimed)
    if ended is None:
        return CANNOT
    Path(answer).write_bytes(pickle.dumps(ended))
    return 0


def _set_up() -> Any:
    import django

    django.setup()
    from django_tasks.worker.seat import run_in_place

    return run_in_place


def _end_with(parent: int) -> None:
    """End when the worker's process has died: others may run the task soon."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLHUP)
    # Its parent as well: a process that the worker has forked may keep the pipe open.
    while os.getppid() == parent:
        if poll.poll(GLANCE_MILLISECONDS):
            break
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
