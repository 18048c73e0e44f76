"""Handlers with limits, in batches, past their time, and deadly ones, beside the fault suite's."""

from typing import Any

from django_tasks.api import RunningTask
from tests.faults.handlers import Batched, Single, Trouble
from tests.simulated_cluster import stage
from tests.simulated_cluster.hosts import current
from tests.simulated_cluster.settings import LEASE
from tests.simulated_cluster.threads import sleep

MOST_RUNNING = 2
# A handler with a timeout works in steps: an exception comes between two of them.
STEP = 1.0
# How long handlers may take, and when their process ends for them; in batches, and otherwise.
TIMEOUT, KILL_AFTER = 4.0, 8.0
BATCH_TIMEOUT, BATCH_KILL_AFTER = 6.0, 10.0
# How many times as long as their timeout those take that overstay it.
OVER = 2.5


class Refused(Exception):
    """A batch was refused as a whole, for the sake of one of its tasks."""


class Limited(Single):
    """No more than two of its rows are ever owned, by all workers together."""

    biz_code = "limited"
    max_running = MOST_RUNNING


class Rated(Single):
    """One start a second, by all workers together."""

    biz_code = "rated"
    rate_limit = "60/m"


class Timely(Single):
    """Begins in time, or it has failed."""

    biz_code = "timely"
    misfire_grace_time = LEASE / 2

    def handle(self, task: RunningTask) -> Any:
        stage.journal.write("began", id=task.id, when=task.when.timestamp())
        return super().handle(task)


class Deadly(Single):
    """Kills its worker, the first times if its payload says how many."""

    biz_code = "deadly"

    def work(self, task: RunningTask) -> Any:
        super().work(task)
        if task.rescues < task.biz_ext["kills"]:
            stage.weather.kill_here()


class Timed(Single):
    """Overstays its timeout at the first attempts, if its payload says so."""

    biz_code = "timed"
    timeout = TIMEOUT

    def work(self, task: RunningTask) -> Any:
        is_long = is_first(task, "overstays")
        take_steps(OVER * TIMEOUT if is_long else task.biz_ext["seconds"])


class Hanging(Timed):
    """Hangs at the first attempts, if its payload says so; then its process has to end."""

    biz_code = "hanging"
    kill_after = KILL_AFTER

    def work(self, task: RunningTask) -> Any:
        if is_first(task, "hangs"):
            hang(task.biz_ext["hang"])
        super().work(task)


class Halved(Batched):
    """Refuses its whole batch at the first attempt of some tasks, and takes its time for that."""

    biz_code = "halved"
    batch = 6

    def work_on(self, tasks: list[RunningTask]) -> dict[RunningTask, Trouble]:
        take_steps(tasks[0].biz_ext["seconds"])
        if any(is_first(task, "refuses") for task in tasks):
            stage.journal.met["batches refused"] += len(tasks) > 1
            raise Refused("the first attempt of one of them")
        return {}


class Crowd(Halved):
    """A batch that may also overstay its timeout, or hang."""

    biz_code = "crowd"
    batch = 4
    timeout = BATCH_TIMEOUT
    kill_after = BATCH_KILL_AFTER

    def work_on(self, tasks: list[RunningTask]) -> dict[RunningTask, Trouble]:
        if hanging := [task for task in tasks if is_first(task, "hangs")]:
            hang(hanging[0].biz_ext["hang"])
        if any(is_first(task, "overstays") for task in tasks):
            take_steps(OVER * BATCH_TIMEOUT)
        return super().work_on(tasks)


def is_first(task: RunningTask, what: str) -> bool:
    """Tell if an attempt is one of the first ones, for which the payload says ``what``."""
    return bool(task.attempts < task.biz_ext[what])


def take_steps(seconds: float) -> None:
    """Work for so long, in steps."""
    while seconds > 0:
        sleep(min(STEP, seconds))
        seconds -= STEP


def hang(seconds: float | None) -> None:
    """Hang where nothing is raised, as in a driver written in C; None: for ever."""
    stage.journal.met["runs that hang"] += 1
    if seconds is None:
        stage.scheduler.park()
    else:
        stage.scheduler.sleep(seconds)
    current().meet()
