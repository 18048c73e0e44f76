"""Tells what becomes of each task: one line a run, made of the signals of django_tasks.

The words are those that the handlers themselves log.
"""

import logging
import os
import shutil
import sys
import textwrap
from datetime import datetime, timedelta
from threading import local
from typing import Any

from django.utils import timezone

from django_tasks import signals
from django_tasks.api import RunningTask

HEADING = f"{'due':12}  {'started':12}  {'late':>8}"
WORDS = len(HEADING) + 2 + len("FAILED ")  # the column in which the words begin
LEAST = 30  # columns for the words, however narrow the terminal
COLOURS = {"done": 32, "again": 32, "retry": 33, "FAILED": 31}


def connect() -> None:
    for signal, receiver in (
        (signals.task_succeeded, succeeded),
        (signals.task_rescheduled, rescheduled),
        (signals.task_retried, retried),
        (signals.task_failed, failed),
    ):
        signal.connect(receiver, dispatch_uid="testproject.demo")
    shop = logging.getLogger("testproject.shop")
    shop.setLevel(logging.INFO)
    shop.addHandler(_listener)


def succeeded(*, task: RunningTask, **_: Any) -> None:
    tell(task, "done", _listener.heard() or f"{task}: nothing was left to do.")


def rescheduled(*, task: RunningTask, when: datetime, **_: Any) -> None:
    tell(task, "again", f"{_listener.heard()} Again at {clock(when)}.")


def retried(*, task: RunningTask, when: datetime, exception: BaseException, **_: Any) -> None:
    _listener.heard()
    went = f"Attempt {task.attempt} failed, again at {clock(when)}."
    tell(task, "retry", f"{task}: {exception}. {went}")


def failed(*, task: Any, exception: BaseException | None = None, **_: Any) -> None:
    if exception is None:  # a rescuer's: there was no run that could be told
        return
    noted = _listener.heard()
    went = f"Attempt {task.attempt} failed, the last."
    tell(task, "FAILED", f"{task}: {exception}. {went} {noted}")


def tell(task: RunningTask, outcome: str, words: str) -> None:
    """Print a line: when the task was due, when it started, how late that was, how it ended."""
    started = task.when + timedelta(seconds=task.lateness)
    facts = f"{clock(task.when)}  {clock(started)}  {duration(task.lateness):>8}"
    columns = shutil.get_terminal_size().columns - WORDS
    lines = textwrap.wrap(words.strip(), max(columns, LEAST))
    rest = "".join(f"\n{' ' * WORDS}{line}" for line in lines[1:])
    # In one piece: handlers run in several threads.
    sys.stdout.write(f"{facts}  {coloured(outcome)} {lines[0]}{rest}\n")
    sys.stdout.flush()


def clock(moment: datetime) -> str:
    """Such as 09:05:00.012; a day that is not today instead of the seconds."""
    moment = timezone.localtime(moment)
    if moment.date() != timezone.localdate():
        return f"{moment:%d %b %H:%M}"
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"


def duration(seconds: float) -> str:
    """Such as 12 ms, 3.4 s, 5 min, 7 h, 2 days."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def coloured(outcome: str) -> str:
    if os.environ.get("DEMO_COLOUR") != "yes":
        return f"{outcome:6}"
    return f"\033[{COLOURS[outcome]}m{outcome:6}\033[0m"


class Listener(logging.Handler):
    """Keeps what the handlers say. A run and the signal of its end are in the same thread."""

    def __init__(self) -> None:
        super().__init__()
        self._said = local()

    def emit(self, record: logging.LogRecord) -> None:
        self._said.words = record.getMessage()

    def heard(self) -> str:
        words: str = self._said.__dict__.pop("words", "")
        return words


_listener = Listener()
