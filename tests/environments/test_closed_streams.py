"""Programs that start others in the background close what they do not need."""

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from django_tasks.api import Task, add_task
from tests.integration.conftest import url_of
from tests.integration.process import Journal, StartTask

pytestmark = pytest.mark.django_db(transaction=True)

# In the shell: manage.py starttask … <&- >&-
CLOSING = """
import os, sys
os.close(0)
os.close(1)
os.execv(sys.executable, [sys.executable, "manage.py", "starttask", *sys.argv[1:]])
"""

Start = Callable[..., StartTask]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def start(tmp_path: Path, journal: Journal) -> Iterator[Start]:
    """Start ``starttask`` without standard input and output."""
    processes: list[StartTask] = []

    def start(*flags: str) -> StartTask:
        environment = {
            "DATABASE_URL": url_of(),
            "DJANGO_SETTINGS_MODULE": "tests.integration.settings",
            "TEST_JOURNAL": str(journal.path),
        }
        command = ("-c", CLOSING)
        log = tmp_path / "log"
        process = StartTask(*flags, log=log, environment=environment, command=command)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.end()


def added(code: str, biz_num: str = "1", **payload: str) -> None:
    when = datetime(2020, 1, 1, tzinfo=timezone.utc)
    add_task(Task(biz_code=code, biz_num=biz_num, when=when, biz_ext=payload or None))


def test_it_starts_and_works_without_input_and_output(start: Start, journal: Journal) -> None:
    added("run")
    assert start("--until-empty").ended() == 0
    assert journal.keys("end") == ["run/1"]


def test_it_ends_at_its_deadline(start: Start, journal: Journal, tmp_path: Path) -> None:
    added("gated", gate=str(tmp_path / "gate"))
    process = start("--shutdown-timeout", "0")
    journal.wait("start")
    assert process.stop() == 1
    assert "Traceback" not in process.log()
