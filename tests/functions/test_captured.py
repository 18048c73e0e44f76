"""Calls that a test has captured: no database has them, nor is one asked for them."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.tasks import TaskResultStatus
from django.tasks.signals import task_enqueued
from django.test import override_settings

from django_tasks.api import TaskExists, add_task
from django_tasks.testing import captured_tasks, freeze_tasks
from tests.functions.functions import echo, note
from tests.functions.test_enqueueing import keyed
from tests.functions.test_lives import Odd

HOUR = timedelta(hours=1)
NOON = datetime(2040, 5, 17, 12, tzinfo=timezone.utc)
# Without the mark django_db each statement would fail.


@pytest.mark.parametrize("on_conflict", ["keep", "earliest"])
def test_the_call_that_stands_is_returned(on_conflict: str) -> None:
    heard: list[Any] = []

    def receiver(task_result: Any, **facts: Any) -> None:
        heard.append(task_result)

    task_enqueued.connect(receiver)
    try:
        with captured_tasks() as tasks:
            first = keyed(echo, key="1", run_after=HOUR, priority=5).enqueue("first")
            later = keyed(echo, key="1", run_after=2 * HOUR, on_conflict=on_conflict)
            second = later.enqueue("second")
    finally:
        task_enqueued.disconnect(receiver)
    assert second == first
    assert (second.args, second.status) == (["first"], TaskResultStatus.READY)
    assert (second.task.priority, second.task.run_after) == (5, first.task.run_after)
    assert len(tasks) == len(heard) == 1


def test_earliest_moves_one_forward() -> None:
    with captured_tasks() as tasks:
        keyed(echo, key="1", run_after=HOUR).enqueue("first")
        sooner = keyed(echo, key="1", on_conflict="earliest").enqueue("second")
    assert sooner.args == ["second"]
    assert [task.biz_ext["args"] for task in tasks] == [["second"]]


def test_a_task_that_is_no_call_has_the_key() -> None:
    unique = keyed(echo, key="1", on_conflict="keep")
    with captured_tasks():
        add_task(unique.biz_code, "1", biz_ext=[1])
        with pytest.raises(TaskExists, match="is no call of this function"):
            unique.enqueue(2)


@override_settings(DJANGO_TASKS={"PAYLOAD_DECODER": f"{Odd.__module__}.{Odd.__name__}"})
def test_a_decoder_of_the_project_changes_nothing() -> None:
    with captured_tasks():
        keyed(echo, key="1").enqueue({"a": 1})
        assert keyed(echo, key="1", on_conflict="keep").enqueue(2).args == [{"a": 1}]


def test_a_delay_counts_from_the_clock_of_the_test() -> None:
    with captured_tasks() as tasks, freeze_tasks(NOON):
        result = keyed(note, run_after=HOUR).enqueue()
    assert tasks[0].when == result.task.run_after == NOON + HOUR
