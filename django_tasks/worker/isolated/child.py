"""The process that runs one claim in place of a worker: see ``parent``.

It answers on a pipe, in lines: that it is ready, or that its database is not, and the end of the
run. The claim comes on its standard input. As long as that is open the worker's process lives.
"""

import os
import select
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from django_tasks.host.stop_signals import Notes

READY = "ready"
NOT_NOW = "not now"
GLANCE_MILLISECONDS = 1000

# True in such a process. No worker starts in one, whatever ``ready()`` of an app may ask for.
is_here = False


class Seat(NamedTuple):
    """The worker in whose place a claim is run, the names of its databases, and the code."""

    using: str
    databases: dict[str, str]
    worker_id: int
    name: str
    biz_code: str


def main(path: list[str], argv: list[str], seat: list[Any]) -> None:
    """Run one claim. Ends without a word if this process cannot run it as the worker would."""
    global is_here
    is_here = True
    to_parent = ToParent(int(sys.argv[1]))
    sys.argv[:] = argv  # settings look at it
    thread = threading.Thread(
        target=to_parent.end_with, args=(os.getppid(),), name="django_tasks-parent", daemon=True
    )
    thread.start()
    # As in a worker: who stops a service may signal all of its processes, and what runs may end.
    with Notes.taken(is_child=True):
        try:
            run = _set_up(Seat(*seat), to_parent.say)
        except Exception as error:
            from django.db import Error

            if isinstance(error, Error):
                to_parent.say(NOT_NOW)
            raise
        to_parent.say(READY)
        to_parent.say(run(to_parent.hear()))


def _set_up(seat: Seat, say: Callable[[str], None]) -> Callable[[str], str]:
    import django

    django.setup()
    from django_tasks.worker.isolated.substitute import taken

    return taken(seat, say)


class ToParent:
    """The way to the worker. Programs that a handler starts do not inherit it."""

    def __init__(self, answers: int) -> None:
        """``answers`` is the descriptor to write to. Standard input is empty from now on."""
        os.set_inheritable(answers, False)
        self._answers = answers
        self._lock = threading.Lock()
        self._input = os.dup(0)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)

    def say(self, line: str) -> None:
        """Send a line. For any thread: a run may end in the moment in which it is given up."""
        with self._lock, open(self._answers, "wb", closefd=False) as answers:
            answers.write(f"{line}\n".encode())

    def hear(self) -> str:
        """The next line of the worker."""
        with open(self._input, "rb", closefd=False) as lines:
            return lines.readline().decode()

    def end_with(self, parent: int) -> None:
        """End when the worker's process has died: others may run the task soon."""
        poll = select.poll()
        poll.register(self._input, select.POLLHUP)
        # Its parent as well: a process that the worker has forked may keep the pipe open.
        while os.getppid() == parent:
            if poll.poll(GLANCE_MILLISECONDS):
                break
        os._exit(1)
