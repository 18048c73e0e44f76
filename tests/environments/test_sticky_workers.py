"""Workers that will run nothing more let others be active for their sticky handlers."""

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from django_tasks.api import get_active
from django_tasks.handlers.base import TaskHandler
from django_tasks.worker.worker import Worker
from tests.environments.workers import Start
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added

pytestmark = pytest.mark.django_db(transaction=True)

LEASE = 9.0


def enough(worker: Worker) -> None:
    """It has claimed as many tasks as it was to."""
    eventually(worker._poller.claims_no_more, "it has had enough")


def die(worker: Worker) -> None:
    def fail() -> float:
        raise SystemExit

    worker._poller.run_once = fail  # type: ignore[method-assign]
    eventually(lambda: worker.failed, "its poller has died")


@pytest.mark.parametrize(("end", "most"), [(enough, 2), (die, None)])
def test_another_worker_takes_over_though_a_long_task_still_runs(
    start_worker: Start, handlers: Any, end: Callable[[Worker], None], most: int | None
) -> None:
    entered, let_go, ran = Event(), Event(), Event()

    class Steady(TaskHandler):
        biz_code = "steady"
        schedule = "every 1d"
        sticky = True

        def handle(self, task: Any) -> None:
            ran.set()

    class Long(TaskHandler):
        biz_code = "long"

        def handle(self, task: Any) -> None:
            entered.set()
            assert let_go.wait(2 * DEADLINE)

    handlers(Steady, Long)
    try:
        first = start_worker(lease=LEASE, max_tasks=most)
        eventually(lambda: get_active("steady"), "the first one is active")
        added("1", "long")
        assert entered.wait(DEADLINE)
        added("1", "steady")
        assert ran.wait(DEADLINE)
        end(first)
        second = start_worker(lease=LEASE)
        eventually(lambda: is_active(second), "the second one is active", deadline=LEASE)
    finally:
        let_go.set()


def is_active(worker: Worker) -> bool:
    state = get_active("steady")
    return state is not None and state.holder == worker._membership.name
