"""Tasks that are added meanwhile are collected and not stored."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from django_tasks.api import (
    Task,
    TaskExists,
    TaskValueError,
    aadd_task,
    add_task,
    add_tasks,
    cancel_task,
    find_tasks,
)
from django_tasks.signals import task_added
from django_tasks.testing import captured_tasks, freeze_tasks
from tests.testing.conftest import Job
from tests.worker.parts import heard

HOUR = timedelta(hours=1)
LATER = "2040-05-17T12:00Z"


def test_it_stores_nothing_and_asks_no_database(job: Job) -> None:
    # Without the mark django_db each statement would fail.
    with captured_tasks() as tasks:
        add_task("job", "1", when=HOUR, biz_ext={"a": 1}, queue="mail", priority=3)
    (task,) = tasks
    assert (task.biz_code, task.biz_num, task.biz_ext) == ("job", "1", {"a": 1})
    assert (task.queue, task.priority) == ("mail", 3)
    assert abs(task.when - task.create_time - HOUR) < timedelta(seconds=5)


@pytest.mark.django_db
def test_afterwards_tasks_are_stored_again() -> None:
    with captured_tasks() as tasks:
        add_task("job", "1")
    add_task("job", "2")
    assert [task.biz_num for task in tasks] == ["1"]
    assert [task.biz_num for task in find_tasks()] == ["2"]


def test_what_is_returned_looks_like_a_stored_task() -> None:
    with captured_tasks() as tasks:
        task = add_task("job", biz_ext=(1, 2))
        other = add_task("job")
    assert task is tasks[0]
    assert task.id < 0
    assert task.id != other.id
    assert len(task.biz_num) == 22
    assert task.biz_ext == [1, 2]
    assert (task.status, task.version, task.attempts, task.queue) == (0, 0, 0, "default")


def test_bad_input_raises_as_always() -> None:
    with captured_tasks() as tasks:
        with pytest.raises(TaskValueError, match="biz_num must not be empty"):
            add_task("job", "")
        with pytest.raises(TaskValueError, match="item 1: biz_code"):
            add_tasks(
                [
                    Task(biz_code="job", biz_num="1", when=add_task("job").when),
                    Task(biz_code="", biz_num="1", when=add_task("job").when),
                ]
            )
    assert len(tasks) == 2


def test_many_are_collected_in_their_order() -> None:
    with freeze_tasks(LATER) as time, captured_tasks() as tasks:
        many = [Task(biz_code="job", biz_num=str(num), when=time.now) for num in range(3)]
        assert add_tasks(many) == 3
    assert [task.biz_num for task in tasks] == ["0", "1", "2"]


def test_one_that_is_added_again_replaces_the_one_before() -> None:
    with captured_tasks() as tasks:
        first = add_task("job", "1", biz_ext=1)
        add_task("job", "2")
        again = add_task("job", "1", biz_ext=2)
    assert [(task.biz_num, task.biz_ext) for task in tasks] == [("2", None), ("1", 2)]
    assert (again.id, again.version) == (first.id, 1)


@pytest.mark.parametrize(
    ("conflict", "left"), [("keep", "first"), ("earliest", "first"), ("replace", "second")]
)
def test_on_conflict_counts_among_captured_tasks(conflict: Any, left: str) -> None:
    with captured_tasks() as tasks:
        add_task("job", "1", biz_ext="first")
        add_task("job", "1", biz_ext="second", when=HOUR, on_conflict=conflict)
    assert [task.biz_ext for task in tasks] == [left]


def test_an_earlier_time_is_taken() -> None:
    with captured_tasks() as tasks:
        add_task("job", "1", when=HOUR, biz_ext="first")
        add_task("job", "1", biz_ext="second", on_conflict="earliest")
    assert [task.biz_ext for task in tasks] == ["second"]


def test_one_that_exists_can_be_refused() -> None:
    with captured_tasks() as tasks:
        task = add_task("job", "1", on_conflict="raise")
        with pytest.raises(TaskExists):
            add_task("job", "1", on_conflict="raise")
        new = [Task(biz_code="job", biz_num=num, when=task.when) for num in ("0", "1")]
        with pytest.raises(TaskExists, match="item 1"):
            add_tasks(new, on_conflict="raise")
    assert tasks == [task]


def test_debounced_ones_are_merged(job: Job) -> None:
    job(lambda task: None, merge=staticmethod(lambda waiting, added: (waiting or []) + added))
    with freeze_tasks(LATER) as time, captured_tasks() as tasks:
        for number in range(4):
            add_task("job", "1", biz_ext=[number], on_conflict="debounce", wait=60, at_most=120)
            time.tick(50)
        begin = time.now - timedelta(seconds=200)
    (task,) = tasks
    assert task.biz_ext == [0, 1, 2, 3]
    assert task.when == max(begin + timedelta(seconds=120), begin + timedelta(seconds=150))


def test_a_paused_one_says_so() -> None:
    with captured_tasks() as tasks:
        add_task("job", "1", paused=True)
    assert tasks[0].get_status_display() == "paused"


@pytest.mark.django_db
def test_the_signal_is_sent_and_the_other_functions_work() -> None:
    add_task("job", "stored")
    with captured_tasks(), heard(task_added) as added:
        add_task("job", "1")
        assert not cancel_task("job", "1")
        assert cancel_task("job", "stored")
    assert [each["task"].biz_num for each in added] == ["1"]


def test_async_code_is_captured() -> None:
    with captured_tasks() as tasks:
        asyncio.run(aadd_task("job"))  # type: ignore[arg-type]
    assert len(tasks) == 1


def test_the_inner_one_takes_them() -> None:
    with captured_tasks() as outer:
        with captured_tasks() as inner:
            add_task("job", "1")
        add_task("job", "2")
    assert [len(inner), len(outer)] == [1, 1]
