"""Handlers with limits, with a last moment to begin, and a deadly one, beside the fault suite's."""

from typing import Any

from django_tasks.api import RunningTask
from tests.explore import stage
from tests.explore.settings import LEASE
from tests.faults.handlers import Single

MOST_RUNNING = 2


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
