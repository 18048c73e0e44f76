"""Two releases side by side, in processes: a child that is replaced is of the old one."""

import os
import signal
from datetime import datetime, timezone

from django_tasks.values.releases import SAME_START
from tests.integration.conftest import Start
from tests.integration.process import StartTask
from tests.integration.tasks import count, row
from tests.waiting import eventually

OLD, NEW = "every 1 day at 09:00 UTC", "every 1 day at 10:00 UTC"
KEY = "report/@schedule"


def release(start: Start, schedule: str, name: str = "") -> StartTask:
    return start(
        *("--processes", "2", "--threads", "1"),
        TEST_HANDLERS="tests.integration.releasing.Report",
        TEST_SCHEDULE=schedule,
        TEST_RELEASE=name,
    )


def replaced_child(supervisor: StartTask) -> None:
    """Kill a child, and wait for the one that takes its place."""
    before = supervisor.log().count(" polls ")
    os.kill(supervisor.children()[-1], signal.SIGKILL)
    supervisor.says(" polls ", before + 1)


def test_a_child_of_an_old_release_that_is_replaced_changes_nothing(start: Start) -> None:
    old = release(start, OLD, "v9")
    old.says(f"The handler of report runs by itself on default: {OLD}")
    new = release(start, NEW, "v10")
    new.says(f"The handler of report runs by itself on default: {NEW}. Its row said: {OLD}")
    replaced_child(old)
    old.says("This release is older")
    assert row(KEY).schedule == NEW
    assert old.stop() == 0
    again = release(start, OLD, "v9")
    again.says("This release is older")
    assert row(KEY).schedule == NEW
    replaced_child(new)
    assert row(KEY).schedule == NEW
    assert (again.stop(), new.stop()) == (0, 0)


def test_without_a_name_the_release_is_known_by_the_start_of_its_supervisor(start: Start) -> None:
    old = release(start, OLD)
    old.says(" polls ", 2)
    eventually(count, "the row is there", log=old.log)
    began = row(KEY).options.release.started
    # Sooner, the two would be taken for one.
    eventually(lambda: datetime.now(timezone.utc) - began > SAME_START * 1.2, "time has passed")
    new = release(start, NEW)
    new.says(" polls ", 2)
    eventually(lambda: row(KEY).schedule == NEW, "the row is the new one's", log=new.log)
    assert row(KEY).schedule == NEW
    replaced_child(old)
    old.says("This release is older")
    assert row(KEY).schedule == NEW
    assert (old.stop(), new.stop()) == (0, 0)
