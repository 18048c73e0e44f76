"""Changes that a run makes to its whole process are told with its name, and left as they are."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from django_tasks.handlers.base import TaskHandler
from django_tasks.models import Task
from django_tasks.worker import process_wide
from django_tasks.worker.process_wide import ProcessWide
from tests.factories import a_claim_of
from tests.waiting import eventually
from tests.worker.conftest import Register
from tests.worker.parts import CODE, Ticks, added, starting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _looks_after_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_wide, "LOOK_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    directory = os.getcwd()
    yield
    os.chdir(directory)


def run_all() -> None:
    with starting(threads=1, poll_interval=0.05) as start:
        start()
        due = Task.objects.filter(biz_code=CODE)
        eventually(lambda: not due.exists(), "all has ended")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "has changed its process" in each]


def test_a_change_of_the_directory_is_told_once_and_left(
    register: Register, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    before = os.getcwd()
    register(lambda task: os.chdir(tmp_path))
    for number in "12":
        added(number)
    run_all()
    (line,) = told(caplog)
    assert line in [
        f"job/{number}, or what ran beside it, has changed its process: "
        f"working directory from {before!r} to {str(tmp_path)!r}"
        for number in "12"
    ]
    assert os.getcwd() == str(tmp_path)


def test_so_is_a_change_of_the_locale(
    register: Register, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not each machine has a second locale: Python's answer to the question is what changes."""
    said = ["C"]
    monkeypatch.setattr(process_wide, "setlocale", lambda category: said[-1])
    register(lambda task: said.append("de_DE.UTF-8"))
    added()
    run_all()
    (line,) = told(caplog)
    assert line.endswith("its process: locale from 'C' to 'de_DE.UTF-8'")


def test_a_directory_that_is_gone_ends_no_run(
    register: Register, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def work(task: Any) -> None:
        gone = tmp_path / task.biz_num
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    register(work)
    added("1")
    added("2")
    run_all()
    (line,) = told(caplog)
    assert line.endswith(" to ''")
    assert "thread" not in caplog.text


def test_between_the_calls_of_a_batch_it_is_told_before_the_next_one(
    handlers: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    class Batch(TaskHandler):
        biz_code = CODE
        batch = 10

        def handle_batch(self, tasks: Any) -> None:
            seen.append(len(told(caplog)))
            os.chdir(tmp_path)
            if len(tasks) > 1:
                raise ValueError("together it fails")

    seen: list[int] = []
    handlers(Batch)
    for number in "12":
        added(number)
    run_all()
    assert seen == [0, 1, 1]


def test_what_another_thread_has_told_of_is_not_told_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = ("/here", "C"), ("/there", "C")
    answers = iter([here, there, here])
    monkeypatch.setattr(process_wide, "_found", lambda: next(answers))
    ProcessWide().look(a_claim_of(), Ticks()())
    assert not told(caplog)


def test_of_many_runs_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []
    later = Ticks()
    monkeypatch.setattr(process_wide, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(process_wide, "ticks", later)
    monkeypatch.setattr(process_wide, "_found", lambda: looks.append(None))
    process = ProcessWide()
    for _ in range(100):
        process.look(a_claim_of(), later())
    assert len(looks) == 1  # that of the beginning
    later.ahead += 0.3
    process.look(a_claim_of(), later())
    assert len(looks) == 2
