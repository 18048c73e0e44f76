"""Sentences about processes: ``starttask``, its children, forks."""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

from django_tasks.logs.lines import say, send_through
from django_tasks.logs.phrases import keys_of, named


def introduced(sentence: str, **fields: Any) -> None:
    """Tell what ``starttask`` serves, in its own ``sentence``; ``fields`` say it to programs."""
    say("introduced", logging.INFO, "%(sentence)s", {"sentence": sentence}, **fields)


def strange_queue(queue: str) -> None:
    text = "No handler has the queue %(queue)r; tasks that were added to it by its name are served"
    say("strange_queue", logging.INFO, text, queue=queue)


def strange_attribute(where: str, name: str, meant: str) -> None:
    """Tell of an attribute of a handler, the class or function at ``where``, as W008 does."""
    text = (
        "%(handler)s has %(attribute)r, which means nothing to django_tasks. Did you mean"
        " %(meant)r?"
    )
    say("strange_attribute", logging.WARNING, text, handler=where, attribute=name, meant=meant)


def process_not_started(name: str, error: BaseException, delay: float) -> None:
    text = "Process %(process_name)s cannot be started (%(error)s); trying again in %(delay).1f s"
    say("process_not_started", logging.ERROR, text, process_name=name, error=error, delay=delay)


def child_ended(number: int, pid: int, code: int | None, delay: float) -> None:
    text = (
        "Process %(child)d (pid %(pid)d) ended with code %(exit_code)s%(guess)s; starting"
        " another%(later)s"
    )
    guess = " (killed; was there not enough memory?)" if code == -9 else ""
    words, fields = {"guess": guess, "later": _later(delay)}, {"exit_code": code, "delay": delay}
    say("child_ended", logging.ERROR, text, words, child=number, pid=pid, **fields)


def _later(delay: float) -> str:
    return f" in {delay:.1f} s" if delay else ""


def not_replaced(number: int, pid: int) -> None:
    text = (
        "Process %(child)d (pid %(pid)d) has stopped as it was asked to: no other takes its place"
    )
    say("child_not_replaced", logging.INFO, text, child=number, pid=pid)


def probes_answered(places: str) -> None:
    """Tell the flags and addresses, ``places``, at which probes are answered."""
    say("probes_answered", logging.INFO, "Probes are answered at %(places)s", places=places)


def probes_ended(pid: int, code: int | None, delay: float) -> None:
    text = (
        "The process that answers probes (pid %(pid)d) ended with code %(exit_code)s; starting"
        " another%(later)s"
    )
    words = {"later": _later(delay)}
    say("probes_ended", logging.ERROR, text, words, pid=pid, exit_code=code, delay=delay)


def health_file_not_written(path: Path, error: BaseException) -> None:
    text = "The health file %(path)s cannot be written (%(error)s); trying again"
    say("health_file_not_written", logging.ERROR, text, path=str(path), error=error)


def metrics_failed() -> None:
    text = "The metrics for --metrics-port cannot be told"
    say("metrics_failed", logging.ERROR, text, exc_info=True)


def retiring(reached: str) -> None:
    text = "This process has reached its limit, %(limit)s: ending when nothing runs any more"
    say("process_retiring", logging.INFO, text, limit=reached)


def second_signal(tasks: Collection[str]) -> None:
    words = {"rest": f"; what still runs will be rescued{named(tasks)}" if tasks else ""}
    text = "Second signal: ending at once%(rest)s"
    say("second_signal", logging.WARNING, text, words, tasks=keys_of(tasks))


def supervisor_died() -> None:
    say("supervisor_gone", logging.ERROR, "The supervisor is gone: stopping")


def fork_failed(error: BaseException) -> None:
    """Tell it in the child, and of a thread of ours that has forked: nothing takes its lines."""
    send_through(None)
    text = "A child process could not be set right after its fork"
    say("fork_failed", logging.ERROR, text, exc_info=error, error=error)
