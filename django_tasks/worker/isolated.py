"""The program that runs one claim in place of a worker: see ``isolation``.

    python -m django_tasks.worker.isolated ANSWER

Reads the job from its input, two lines of JSON, and writes the end of the run into the file ANSWER.
"""

import json
import os
import select
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NamedTuple

# Exit codes: this process cannot run the task as the worker would; it could not begin the run.
CANNOT = 86
NOT_RUN = 87
GLANCE_MILLISECONDS = 1000


class Seat(NamedTuple):
    """The worker in whose place a claim is run, and the name of its database."""

    using: str
    database: str
    worker_id: int
    name: str


def main(answer: str) -> int:
    """Run the job on the input; returns the exit code."""
    seat, claim = (sys.stdin.buffer.readline().decode() for _ in range(2))
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        # A process manager signals all processes of a service. This one ends with its worker, which
        # waits for it. (Not SIG_IGN: programs that the handler starts would inherit that.)
        signal.signal(number, _noted)
    threading.Thread(
        target=_end_with, args=(parent,), name="django_tasks-parent", daemon=True
    ).start()
    try:
        run = _set_up()
    except Exception:  # noqa: BLE001 - then the worker runs the task itself
        return CANNOT
    try:
        ended = run(Seat(*json.loads(seat)), claim)
    except Exception:  # noqa: BLE001 - of our own: what a handler raises is an end
        traceback.print_exc()
        return NOT_RUN
    if ended is None:
        return CANNOT
    Path(answer).write_text(ended, encoding="utf-8")
    return 0


def _set_up() -> Any:
    import django

    django.setup()
    from django_tasks.worker.seat import run_in_place

    return run_in_place


def _noted(number: int, frame: Any) -> None:
    """Nothing is to be done."""


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
