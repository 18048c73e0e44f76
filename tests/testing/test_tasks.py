"""The object that ``handle`` gets, made by a test."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from django_tasks.api import RunningTask, TaskOptions, TaskValueError
from django_tasks.testing import freeze_tasks, running_task
from django_tasks.timezones import for_django
from tests.testing.conftest import Job

NOON = datetime(2040, 5, 17, 12, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def _noon() -> Any:
    """No database is asked: not even for the time."""
    with freeze_tasks(NOON):
        yield


def test_it_is_what_a_handler_gets() -> None:
    task = running_task("job", 42, biz_ext={"sent": 0})
    assert isinstance(task, RunningTask)
    assert (task.biz_code, task.biz_num, task.biz_ext) == ("job", "42", {"sent": 0})
    assert (task.attempt, task.attempts, task.rescues, task.runs) == (1, 0, 0, 0)
    assert task.when == task.scheduled_time == for_django(NOON)
    assert (task.queue, task.priority, task.using) == ("default", 0, "default")
    assert task.lateness == 0
    assert not task.cancel_requested


def test_its_queue_and_priority_are_its_handlers(job: Job) -> None:
    job(lambda task: None, queue="mail", priority=7)
    task = running_task("job")
    assert (task.queue, task.priority) == ("mail", 7)


def test_its_attributes_can_be_said() -> None:
    begin = NOON - timedelta(hours=1)
    task = running_task(
        "job",
        "1",
        when=begin,
        claim_time=NOON,
        scheduled_time=begin,
        attempt=3,
        rescues=1,
        options=TaskOptions(max_attempts=4),
        schedule="every 1h",
        last_error="before",
        priority=-1,
        id=7,
        version=8,
    )
    assert (task.attempt, task.attempts, task.rescues) == (3, 1, 1)
    assert task.lateness == 3600
    assert task.options.max_attempts == 4
    assert (task.schedule, task.last_error, task.priority) == ("every 1h", "before", -1)
    assert (task.id, task.version) == (7, 8)


def test_a_handler_stands_for_its_code(job: Job) -> None:
    own = job(lambda task: None)
    assert running_task(own).biz_code == running_task(type(own)).biz_code == "job"


def test_it_may_be_cancelled() -> None:
    answers = iter([False, True])
    assert running_task("job", cancel_requested=True).cancel_requested
    task = running_task("job", cancel_requested=lambda: next(answers))
    assert [task.cancel_requested, task.cancel_requested] == [False, True]


def test_it_saves_and_tells_without_a_row() -> None:
    task = running_task("job", biz_ext={"step": 1})
    assert task.save({"step": 2})
    assert task.biz_ext == {"step": 2}
    task.progress(1, 2, "half")
    with pytest.raises(TaskValueError, match="biz_ext"):
        task.save(object())


@pytest.mark.parametrize(
    "wrong",
    [
        {"payload": 1},
        {"biz_ext": object()},
        {"attempt": 0},
        {"when": "noon"},
        {"queue": ""},
        {"options": {}},
        {"priority": "high"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_no_task_can_have_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TaskValueError, match=next(iter(wrong))):
        running_task("job", "1", **wrong)
