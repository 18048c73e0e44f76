"""The tasks of a night: what failed, what is late, what is paused, what a dead worker held.

All of it began more than a day ago, so that each time is shown with its date, and lengths of time
have the same units for half an hour to come.
"""

import os
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
django.setup()

from django.db import connection  # noqa: E402

from django_tasks.api import Status, add_task, pause_tasks  # noqa: E402
from django_tasks.models import Pause, Task, WorkerRow  # noqa: E402
from django_tasks.store import clock  # noqa: E402
from django_tasks.testing import drain_tasks, freeze_tasks  # noqa: E402

NOW = clock.now("default")
BEGAN = NOW - timedelta(days=1, hours=7, minutes=30)


def main() -> None:
    """Make the rows."""
    with freeze_tasks(BEGAN):
        for number in (3, 6, 9, 12, 40):
            # Keys in the order of PostgreSQL, which sorts them by length.
            add_task("refund", number, biz_ext={"sum": "12.90", "order": number})
            drain_tasks(codes="refund", raise_errors=False)
        add_task("fax", 42)
        add_task("mail", 41)
        add_task("report", "monthly")
    add_task("mail", 42, when=timedelta(hours=8, minutes=30, seconds=30))
    pause_tasks(biz_code="mail", by="anna")
    Pause.objects.update(since=BEGAN)
    die_with("monthly")


def die_with(biz_num: str) -> None:
    """Leave a task in the hands of a worker that has not been heard of since."""
    values = {"name": "web-1:14813:c6b7d5", "host": "web-1", "pid": 14813, "version": "0.1.0"}
    times = {"started": BEGAN, "heartbeat": BEGAN, "lease": 30.0}
    worker = WorkerRow.objects.create(threads=4, busy=1, state="working", **values, **times)
    # As no program of a user may do it: there is no call that makes a worker die.
    held = {"status": Status.RUNNING, "claimed_by": worker.pk, "claim_time": BEGAN}
    Task._base_manager.filter(biz_num=biz_num).update(**held)


if __name__ == "__main__":
    main()
    connection.close()
