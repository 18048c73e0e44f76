"""Sentences about processes: ``starttask``, its children, forks."""

import logging
from collections.abc import Collection

from django_tasks.logs.lines import say, send_through
from django_tasks.logs.phrases import named


def introduced(sentence: str) -> None:
    """Tell what ``starttask`` serves, in its own ``sentence``."""
    say(logging.INFO, "%s", sentence)


def strange_queue(queue: str) -> None:
    text = "No handler has the queue %r; tasks that were added to it by its name are served"
    say(logging.INFO, text, queue)


def child_ended(number: int, pid: int, code: int | None, delay: float) -> None:
    say(
        logging.ERROR,
        "Process %d (pid %d) ended with code %s%s; starting another%s",
        number,
        pid,
        code,
        " (killed; was there not enough memory?)" if code == -9 else "",
        f" in {delay:.1f} s" if delay else "",
    )


def retiring(reached: str) -> None:
    text = "This process has reached its limit, %s: ending when nothing runs any more"
    say(logging.INFO, text, reached)


def second_signal(tasks: Collection[str]) -> None:
    say(
        logging.WARNING,
        "Second signal: ending at once%s",
        f"; what still runs will be rescued{named(tasks)}" if tasks else "",
    )


def supervisor_died() -> None:
    say(logging.ERROR, "The supervisor is gone: stopping")


def fork_failed(error: BaseException) -> None:
    """Tell it in the child, and of a thread of ours that has forked: nothing takes its lines."""
    send_through(None)
    say(logging.ERROR, "A child process could not be set right after its fork", exc_info=error)
