"""A program of which one process leads and the others stand by: the recipe, with a journal.

Arguments: the lease in seconds. It ends when it is killed, or when the file ``TEST_GATE`` exists.
"""

import json
import os
import sys
from pathlib import Path
from threading import Event
from time import monotonic

import django
from django.db import Error

LOOK_SECONDS = 0.05


def note(event: str, **facts: object) -> None:
    """One line of the journal, in one write."""
    line = {"event": event, "key": "leader", "pid": os.getpid(), "now": monotonic()} | facts
    journal = os.open(os.environ["TEST_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(journal, (json.dumps(line) + "\n").encode())
    finally:
        os.close(journal)


def main(lease: float) -> None:
    from django_tasks.api import LockLost, LockTaken, lock

    pause, gate = Event(), Path(os.environ["TEST_GATE"])
    print("leader polls the lock", flush=True)  # noqa: T201 - what the tests wait for
    while not gate.exists():
        try:
            with lock("leader", lease=lease, wait=lease / 2) as held:
                while held.is_held and not gate.exists():
                    note("lead", term=held.term)
                    pause.wait(LOOK_SECONDS)
        except LockTaken:
            note("stand by")
        except LockLost:
            note("lost")
        except Error:
            pause.wait(LOOK_SECONDS)


if __name__ == "__main__":
    django.setup()
    main(float(sys.argv[1]))
