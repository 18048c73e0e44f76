"""Sentences about processes: ``starttask``, its children, forks."""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

from django_tasks.logs.lines import say, send_through
from django_tasks.logs.phrases import InShort, keys_of, named


def introduced(sentence: str, **fields: Any) -> None:
    """Tell what ``starttask`` serves, in its own ``sentence``; ``fields`` say it to programs."""
    say("introduced", logging.INFO, "%s", sentence, **fields)


def strange_queue(queue: str) -> None:
    text = "No handler has the queue %r; tasks that were added to it by its name are served"
    say("strange_queue", logging.INFO, text, queue, queue=queue)


def strange_attribute(where: str, name: str, meant: str) -> None:
    """Tell of an attribute of a handler, the class or function at ``where``, as W008 does."""
    text = "%s has %r, which means nothing to django_tasks. Did you mean %r?"
    facts = {"handler": where, "attribute": name, "meant": meant}
    say("strange_attribute", logging.WARNING, text, where, name, meant, **facts)


def process_not_started(name: str, error: BaseException, delay: float) -> None:
    text, reason = "Process %s cannot be started (%s); trying again in %.1f s", InShort(error)
    fields = {"process_name": name, "error": reason, "delay": delay}
    say("process_not_started", logging.ERROR, text, name, reason, delay, **fields)


def child_ended(number: int, pid: int, code: int | None, delay: float) -> None:
    say(
        "child_ended",
        logging.ERROR,
        "Process %d (pid %d) ended with code %s%s; starting another%s",
        number,
        pid,
        code,
        " (killed; was there not enough memory?)" if code == -9 else "",
        f" in {delay:.1f} s" if delay else "",
        child=number,
        pid=pid,
        exit_code=code,
        delay=delay,
    )


def not_replaced(number: int, pid: int) -> None:
    text = "Process %d (pid %d) has stopped as it was asked to: no other takes its place"
    say("child_not_replaced", logging.INFO, text, number, pid, child=number, pid=pid)


def probes_answered(places: str) -> None:
    """Tell the flags and addresses, ``places``, at which probes are answered."""
    say("probes_answered", logging.INFO, "Probes are answered at %s", places, places=places)


def probes_ended(pid: int, code: int | None, delay: float) -> None:
    text = "The process that answers probes (pid %d) ended with code %s; starting another%s"
    say(
        "probes_ended",
        logging.ERROR,
        text,
        pid,
        code,
        f" in {delay:.1f} s" if delay else "",
        pid=pid,
        exit_code=code,
        delay=delay,
    )


def health_file_not_written(path: Path, error: BaseException) -> None:
    text = "The health file %s cannot be written (%s); trying again"
    reason = InShort(error)
    say("health_file_not_written", logging.ERROR, text, path, reason, path=str(path), error=reason)


def metrics_failed() -> None:
    text = "The metrics for --metrics-port cannot be told"
    say("metrics_failed", logging.ERROR, text, exc_info=True)


def retiring(reached: str) -> None:
    text = "This process has reached its limit, %s: ending when nothing runs any more"
    say("process_retiring", logging.INFO, text, reached, limit=reached)


def second_signal(tasks: Collection[str]) -> None:
    say(
        "second_signal",
        logging.WARNING,
        "Second signal: ending at once%s",
        f"; what still runs will be rescued{named(tasks)}" if tasks else "",
        tasks=keys_of(tasks),
    )


def supervisor_died() -> None:
    say("supervisor_gone", logging.ERROR, "The supervisor is gone: stopping")


def fork_failed(error: BaseException) -> None:
    """Tell it in the child, and of a thread of ours that has forked: nothing takes its lines."""
    send_through(None)
    text = "A child process could not be set right after its fork"
    say("fork_failed", logging.ERROR, text, exc_info=error, error=InShort(error))
