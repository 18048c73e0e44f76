"""Handlers that start processes, as those do that compute, convert or call programs."""

import gc
import multiprocessing
import signal
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from time import monotonic
from typing import Any

from django_tasks import api, signals
from django_tasks.api import TaskHandler
from django_tasks.handlers import registry
from django_tasks.handlers.running_task import RunningTask
from django_tasks.store import clock
from django_tasks.wakeup import local
from django_tasks.worker import embedded
from tests.integration.handlers import Gated, Run, note
from tests.waiting import DEADLINE, eventually

__all__ = ["Gated", "Run"]

FORK = multiprocessing.get_context("fork")


def square(number: int) -> int:
    """Work for a process of its own, which collects its garbage in the end."""
    gc.collect()
    return number * number


def wait_for_ever() -> None:
    threading.Event().wait()


class Terminate(TaskHandler):
    """Starts a process and ends it at once."""

    biz_code = "terminate"

    def handle(self, task: RunningTask) -> None:
        process = FORK.Process(target=wait_for_ever, daemon=True)
        process.start()
        process.terminate()
        try:
            # Not by join(): multiprocessing asks for the ends of all processes at each start, in
            # other handlers' threads too, and of two that ask at once one is told None.
            code = eventually(lambda: process.exitcode, "its end", deadline=DEADLINE / 3)
        finally:
            process.kill()
        note("end", task, monotonic(), found=code)


class Pool(TaskHandler):
    """Has a pool of processes, whose end terminates them."""

    biz_code = "pool"

    def handle(self, task: RunningTask) -> None:
        with FORK.Pool(2) as pool:
            found = pool.map(square, range(4))
        pool.join()
        note("end", task, monotonic(), found=found)


class Futures(TaskHandler):
    """The same by the other name."""

    biz_code = "futures"

    def handle(self, task: RunningTask) -> None:
        with ProcessPoolExecutor(2, mp_context=FORK) as pool:
            found = list(pool.map(square, range(4)))
        note("end", task, monotonic(), found=found)


# Waits for a signal. Not by signal.pause(): a signal that comes just before its system call is not
# noticed there. Here it has written a byte, and the wait for that byte ends at once.
WAITING = """
import os, select, signal
reading, writing = os.pipe()
os.set_blocking(writing, False)
signal.set_wakeup_fd(writing)
print(flush=True)
select.select([reading], [], [], 60)
"""


class Interrupt(TaskHandler):
    """Ends a program as a person at a terminal would."""

    biz_code = "interrupt"

    def handle(self, task: RunningTask) -> None:
        command = [sys.executable, "-c", WAITING]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
            assert other.stdout is not None
            other.stdout.readline()  # it runs, and has its own handlers
            other.send_signal(signal.SIGINT)
            try:
                code = other.wait(DEADLINE / 3)
            finally:
                other.kill()
        note("end", task, monotonic(), found=code)


class Look(TaskHandler):
    """Looks around in the child of a fork."""

    biz_code = "look"

    def handle(self, task: RunningTask) -> None:
        api.start(threads=1)
        # As if other threads were in the middle of something.
        locks = [embedded._lock, local._lock, clock._lock, registry._lock]
        locks += [signals.task_added.lock]
        for lock in locks:
            lock.acquire()
        answers, ours = FORK.Pipe(duplex=False)
        try:
            process = FORK.Process(target=look_around, args=(ours,))
            process.start()
            found = answers.recv() if answers.poll(DEADLINE / 3) else "nothing"
            process.kill()
            process.join()
        finally:
            for lock in locks:
                lock.release()
            api.shutdown()
        note("end", task, monotonic(), found=found)


def look_around(answers: Any) -> None:
    free = [embedded._lock, local._lock, clock._lock, registry._lock]
    free += [signals.task_added.lock]
    answers.send(
        {
            "term": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
            "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
            "wakeup": signal.set_wakeup_fd(-1),
            "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
            "workers": len(embedded._workers),
            "listeners": len(local._listeners),
            "threads": [
                each.name for each in threading.enumerate() if "django_tasks-" in each.name
            ][1:],
            "free": all(lock.acquire(blocking=False) for lock in free),
        }
    )
