"""Handlers that write down what they do, and wait where the test wants them to.

A line of the journal is one write to a file opened for appending, so that the lines of several
processes never mix. Payload keys: ``gate`` is a file that must exist before the run goes on,
or one for this process alone: its number comes after a dot.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from django.contrib.auth.models import Group

from django_tasks.api import TaskHandler
from django_tasks.handlers.running_task import RunningTask
from tests.waiting import DEADLINE, eventually


def note(event: str, task: RunningTask, start: float, **facts: Any) -> None:
    line = {
        "event": event,
        "key": str(task),
        "version": task.version,
        "attempt": task.attempt,
        "pid": os.getpid(),
        "worker": task.claimed_by,
        "payload": task.biz_ext,
        "using": task.using,
        "lateness": task.lateness,
        "start": start,
        "now": monotonic(),
    }
    write(line | facts)


def write(line: dict[str, Any]) -> None:
    data = (json.dumps(line) + "\n").encode()
    journal = os.open(os.environ["TEST_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(journal, data)
    finally:
        os.close(journal)


@contextmanager
def noted(task: RunningTask) -> Iterator[None]:
    start = monotonic()
    note("start", task, start)
    yield
    note("end", task, start)


def wait_at_the_gate(task: RunningTask) -> None:
    gate = (task.biz_ext or {}).get("gate")
    if gate:
        gates = Path(gate), Path(f"{gate}.{os.getpid()}")
        eventually(
            lambda: any(each.exists() for each in gates),
            f"the gate of {task}",
            deadline=2 * DEADLINE,
        )


class Run(TaskHandler):
    """Runs, and writes one line."""

    biz_code = "run"

    def handle(self, task: RunningTask) -> None:
        note("end", task, monotonic())


class Gated(TaskHandler):
    """Runs until its gate is open."""

    biz_code = "gated"
    backoff = 0

    def handle(self, task: RunningTask) -> None:
        with noted(task):
            wait_at_the_gate(task)


class Again(TaskHandler):
    """Comes back at once until it was there so many ``times``."""

    biz_code = "again"

    def handle(self, task: RunningTask) -> timedelta | None:
        with noted(task):
            wait_at_the_gate(task)
            task.biz_ext["times"] -= 1
        return timedelta(0) if task.biz_ext["times"] > 0 else None


class Until(TaskHandler):
    """Runs until it is asked to stop."""

    biz_code = "until"

    def handle(self, task: RunningTask) -> None:
        with noted(task):
            eventually(lambda: task.cancel_requested, f"the cancel of {task}")


class Kill(TaskHandler):
    """Ends its own process, without a word."""

    biz_code = "kill"
    max_attempts = 2

    def handle(self, task: RunningTask) -> None:
        note("start", task, monotonic())
        if task.biz_num.startswith("exit"):
            os._exit(9)
        os.kill(os.getpid(), signal.SIGKILL)


class Fail(TaskHandler):
    """Always raises."""

    biz_code = "fail"
    max_attempts = 2
    backoff = 0

    def handle(self, task: RunningTask) -> None:
        note("end", task, monotonic())
        raise ValueError("this one always fails")


class Effect(TaskHandler):
    """Leaves a row of business data, in one transaction with its end."""

    biz_code = "effect"
    atomic = True
    max_attempts = 100
    backoff = 0.01

    def handle(self, task: RunningTask) -> None:
        Group.objects.using(task.using).create(name=f"effect {task.biz_num}")
        note("end", task, monotonic())


class Slow(TaskHandler):
    """Takes a few milliseconds and a query, as real work does."""

    biz_code = "slow"
    max_attempts = 100
    backoff = 0.01

    def handle(self, task: RunningTask) -> None:
        start = monotonic()
        Group.objects.using(task.using).count()
        note("end", task, start)


class Tick(TaskHandler):
    """Counts its runs in the payload, for the next run to go on from.

    Each accepted run leaves a row of its number. The first try of the run whose number is
    ``deadly`` kills its process.
    """

    biz_code = "tick"
    atomic = True
    max_attempts = 100
    backoff = 0.01

    def handle(self, task: RunningTask) -> timedelta | None:
        task.biz_ext["ticks"] += 1
        note("start", task, monotonic())
        if task.biz_ext["ticks"] == task.biz_ext["deadly"] and task.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        Group.objects.using(task.using).create(name=f"tick {task.biz_ext['ticks']}")
        return None if task.schedule else timedelta(seconds=0.05)


class Steady(TaskHandler):
    """Counts in the memory of its process; the others note that they stand by."""

    biz_code = "steady"
    schedule = "every 0.1s"
    sticky = True
    count = 0

    def handle(self, task: RunningTask) -> None:
        Steady.count += 1
        task.biz_ext = {"count": Steady.count}
        note("end", task, monotonic())

    def on_passive(self, task: Any) -> None:
        facts = {"key": str(task), "pid": os.getpid(), "active": task.active, "term": task.term}
        write({"event": "passive", "now": monotonic(), "payload": task.biz_ext} | facts)
