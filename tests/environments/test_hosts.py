"""A worker runs what is for its host, and leaves alone what is for another one."""

from datetime import datetime
from threading import Event
from typing import Any

import pytest
from django.test import override_settings

from django_tasks.client.control import run_task_now
from django_tasks.handlers.base import TaskHandler
from django_tasks.timezones import for_django
from django_tasks.worker import schedule_rows
from tests.environments.workers import Start
from tests.factories import table
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import ago, config, row, stored

HERE, THERE = "@schedule:web-1", "@schedule:web-2"


@pytest.mark.django_db(transaction=True)
@override_settings(DJANGO_TASKS={"WORKER_NAME": "web-1"})
def test_each_host_runs_its_own(start_worker: Start, handlers: Any) -> None:
    ran: list[str] = []
    done = Event()

    class Tidy(TaskHandler):
        biz_code = "tidy"
        schedule = "every 1h"
        each_host = True

        def handle(self, task: Any) -> None:
            ran.append(task.biz_num)
            done.set()

    handlers(Tidy)
    with override_settings(DJANGO_TASKS={"WORKER_NAME": "web-2"}):
        schedule_rows.keep(ago(0), config())
    worker = start_worker()
    eventually(lambda: row(HERE, "tidy") is not None, "its row is made")
    table(biz_num=THERE).update(when=for_django(ago(5)))
    assert run_task_now("tidy", HERE)
    assert done.wait(DEADLINE)
    eventually(lambda: stored(HERE, "tidy").when > due_by(), "it goes on")
    worker.stop()
    assert worker.join(DEADLINE)
    assert ran == [HERE]
    assert stored(THERE, "tidy").when < due_by()


def due_by() -> datetime:
    return for_django(ago(0))
