"""Handlers that write into the journal when they start, when they end, and what they were given.

The payload of a task is ``{"nonce": …, "hop": 0}``; each add has a nonce of its own, so that a run
tells which add it carries out.
"""

import os
from datetime import timedelta
from random import random, sample
from threading import Event, Lock, Thread, get_ident
from typing import Any

from django_tasks.api import RunningTask, Stop, TaskHandler
from tests.faults import forks, journal, slowness, untidiness
from tests.faults.client import a_client
from tests.faults.effects.models import Effect
from tests.faults.habits import on

HOPS = 2
# Which share of the calls with several tasks a batch handler refuses, how many of the tasks change
# under its hands, and how long it goes on after that.
REFUSED = float(os.environ.get("FAULTS_REFUSED", "0.3"))
CHANGED = 2
REFUSAL_SECONDS = 0.05
# From one sign of life of a run without end to the next.
SIGN_SECONDS = 0.005


class Trouble(Exception):
    """A failure that a handler was made for."""


class Journalling(TaskHandler):
    """Writes the journal around its work, which subclasses define."""

    seconds = 0.001
    # So many that nothing FAILs because its worker was killed again and again.
    max_attempts = 1000
    backoff = 0.05

    def note_start(self, task: RunningTask, call: str = "") -> str:
        """Journal the start of a run; returns its name. Those of a batch share a ``call``."""
        run = journal.unique()
        untidiness.look(task, is_atomic=self.atomic)
        journal.write(
            "start",
            run=run,
            code=task.biz_code,
            num=task.biz_num,
            id=task.id,
            version=task.version,
            worker=task.claimed_by,
            nonce=task.biz_ext["nonce"],
            hop=task.biz_ext["hop"],
            attempt=task.attempt,
            attempts=task.attempts,
            rescues=task.rescues,
            thread=get_ident(),
            call=call or run,
            queue=task.queue,
            claimed=task.update_time.timestamp(),
            when=task.when.timestamp(),
            scheduled=task.scheduled_time.timestamp(),
            atomic=self.atomic,
        )
        return run

    def on_failure(self, task: RunningTask, exc: BaseException) -> None:
        slowness.hook("on_failure")

    def on_stuck(self, task: RunningTask, seconds: float) -> None:
        slowness.hook("on_stuck")

    def take_time(self, task: RunningTask) -> None:
        # One of its own: an interrupt may leave its lock locked, and others would wait for it.
        Event().wait(task.biz_ext.get("seconds", random() * 2 * self.seconds))


class Single(Journalling):
    """Does its work for one task at a time."""

    def handle(self, task: RunningTask) -> Any:
        run = self.note_start(task)
        try:
            answer = self.work(task)
            untidiness.leave(is_atomic=self.atomic)
            note_end(run)
        except BaseException as error:
            # Also of a timeout that comes while the good end is written: the last word counts.
            note_end(run, error)
            raise
        return answer

    def work(self, task: RunningTask) -> Any:
        self.take_time(task)


class Plain(Single):
    """May need a pool of processes."""

    biz_code = "plain"

    def work(self, task: RunningTask) -> Any:
        self.take_time(task)
        if on("forks"):
            forks.compute_in_a_pool()


class Slow(Single):
    """Takes longer than it should, now and then, and may need another process."""

    biz_code = "slow"
    seconds = 0.3
    timeout = 0.5

    def work(self, task: RunningTask) -> Any:
        self.take_time(task)
        if on("forks"):
            forks.compute(str(task))


class Atomic(Single):
    biz_code = "atomic"
    atomic = True

    def work(self, task: RunningTask) -> Any:
        do_business(task)
        self.take_time(task)


class Effectful(Single):
    """Its effect may happen twice, as documented; never less than once."""

    biz_code = "effectful"

    def work(self, task: RunningTask) -> Any:
        self.take_time(task)
        do_business(task)


class Again(Single):
    """Runs ``HOPS`` times more, each with a payload of its own making."""

    biz_code = "again"

    def work(self, task: RunningTask) -> Any:
        self.take_time(task)
        return next_hop(task)


class Beat(Single):
    """As ``Again``, but its task has a schedule that says when: it is there until it says Stop."""

    biz_code = "beat"

    def work(self, task: RunningTask) -> Any:
        self.take_time(task)
        return None if next_hop(task) else Stop


class AtomicAgain(Atomic):
    biz_code = "atomic_again"

    def work(self, task: RunningTask) -> Any:
        super().work(task)
        return next_hop(task)


class Flaky(Single):
    """Fails at the first attempt, and is fine at the second."""

    biz_code = "flaky"

    def work(self, task: RunningTask) -> Any:
        self.take_time(task)
        if task.attempts == 0:
            raise Trouble("the first attempt always fails")


class Brittle(Single):
    """FAILED after one attempt; fine after a requeue, which makes the version an even one."""

    biz_code = "brittle"
    max_attempts = 1

    def work(self, task: RunningTask) -> Any:
        self.take_time(task)
        if task.version % 2:
            raise Trouble("claimed under an odd version")


class Punctual(Single):
    """Is told of each run that begins too late, and runs all the same; in a queue of its own."""

    biz_code = "punctual"
    queue = "punctual"
    misfire_grace_time = 1.5
    on_misfire = "run"


class Endless(Single):
    """Does not end at the first attempt, in a call that no exception reaches: it costs its process.

    For scenarios that ask for it: where it is known, each worker has a supervisor.
    """

    biz_code = "endless"
    timeout = 0.5
    kill_after = 1.0

    def work(self, task: RunningTask) -> Any:
        if task.attempts:
            self.take_time(task)
            return
        # The process is known to live, and the run with it, for as long as somebody says so.
        Thread(target=give_signs, daemon=True).start()
        lock = Lock()
        lock.acquire()
        lock.acquire()


def give_signs() -> None:
    """Journal a sign of life again and again."""
    while True:
        journal.write("sign")
        Event().wait(SIGN_SECONDS)


class Batched(Journalling):
    """Answers for some of its tasks that they have failed, at the first attempt; and it refuses
    some calls, whoever is in them.
    """

    biz_code = "batched"
    batch = 50

    def handle_batch(self, tasks: list[RunningTask]) -> dict[RunningTask, Trouble]:
        call = journal.unique()
        runs = {task: self.note_start(task, call) for task in tasks}
        try:
            failed = self.work_on(tasks)
            untidiness.leave(is_atomic=self.atomic)
        except BaseException as error:
            for run in runs.values():
                # Of several, each is called again: nobody knows yet who has failed.
                note_end(run, error, raised=True, is_charge=len(tasks) == 1)
            raise
        for task, run in runs.items():
            note_end(run, failed.get(task))
        return failed

    def work_on(self, tasks: list[RunningTask]) -> dict[RunningTask, Trouble]:
        self.take_time(tasks[0])
        if len(tasks) > 1 and random() < REFUSED:
            change_some(tasks)
            untidiness.leave(is_atomic=self.atomic)
            raise Trouble("not all of these together")
        return {task: Trouble("at the first attempt") for task in tasks if is_unlucky(task)}


class AtomicBatch(Batched):
    """Raises for the sake of one of its tasks: all that it did for the others is rolled back."""

    biz_code = "atomic_batch"
    atomic = True

    def work_on(self, tasks: list[RunningTask]) -> dict[RunningTask, Trouble]:
        for task in tasks:
            do_business(task)
        self.take_time(tasks[0])
        if any(map(is_unlucky, tasks)):
            raise Trouble("at the first attempt of one of them")
        return {}


def change_some(tasks: list[RunningTask]) -> None:
    """Change some tasks of a call that goes on, as clients do: by chance they seldom come then."""
    for task in sample(tasks, CHANGED):
        a_client().change_one((task.biz_code, task.biz_num), task.when)
    Event().wait(REFUSAL_SECONDS)


def is_unlucky(task: RunningTask) -> bool:
    """Tell if this attempt is to fail: the first of every tenth task."""
    return task.attempts == 0 and sum(task.biz_ext["nonce"].encode()) % 10 == 0


def note_end(
    run: str, error: BaseException | None = None, *, raised: bool = False, is_charge: bool = True
) -> None:
    """Journal the end of a run; ``raised``: of the whole call. ``is_charge``: an attempt is used if
    it was an error.
    """
    how = type(error).__name__ if error else "done"
    is_charge = is_charge and error is not None
    journal.write("end", run=run, how=how, raised=raised, is_charge=is_charge)


def do_business(task: RunningTask) -> None:
    Effect.objects.using(task.using).create(
        code=task.biz_code,
        num=task.biz_num,
        nonce=task.biz_ext["nonce"],
        hop=task.biz_ext["hop"],
        task_id=task.id,
        version=task.version,
    )


def next_hop(task: RunningTask) -> timedelta | None:
    if task.biz_ext["hop"] == HOPS:
        return None
    task.biz_ext = {**task.biz_ext, "hop": task.biz_ext["hop"] + 1}
    return timedelta(seconds=0.1)
