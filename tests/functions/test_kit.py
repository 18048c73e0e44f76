"""The testing kit takes functions where it takes handlers."""

from collections.abc import Callable
from typing import Any

import pytest
from django.tasks import task

from django_tasks.api import HandlerError, Task, TaskTypeError, get_task
from django_tasks.testing import (
    assert_no_task,
    assert_task_added,
    assertNumTasks,
    captured_tasks,
    crash_test,
    drain_tasks,
    run_due_tasks,
)
from tests.functions import functions
from tests.functions.functions import cancel_unpaid, echo, note
from tests.functions.test_enqueueing import keyed

pytestmark = pytest.mark.django_db


def test_its_calls_are_found_by_the_function() -> None:
    keyed(cancel_unpaid, key="42").enqueue("42")
    assert assert_task_added(cancel_unpaid, "42", args=["42"]) == get_task("cancel_unpaid", "42")
    assert_no_task(note)
    with pytest.raises(AssertionError, match=r"has args=\['42'\], not \['43'\]"):
        assert_task_added(cancel_unpaid, args=["43"])
    with pytest.raises(AssertionError, match="there is \n  cancel_unpaid/42"):
        assert_no_task(cancel_unpaid)


def test_its_calls_are_counted_by_the_function() -> None:
    with assertNumTasks(2, code=note):
        for value in range(2):
            note.enqueue(value)
            echo.enqueue(value)


def test_captured_calls_are_found_as_well() -> None:
    with captured_tasks(), assertNumTasks(1, code=note):
        note.enqueue(1, word="a")
        assert_task_added(note, args=[1], kwargs={"word": "a"})
    assert_no_task(note)


@pytest.mark.parametrize("run", [run_due_tasks, drain_tasks])
def test_its_calls_alone_are_run(run: Callable[..., Any], calls: list[Any]) -> None:
    for codes in (note, [note], [note, "cancel_unpaid"]):
        note.enqueue(5)
        echo.enqueue(5)
        assert [ran.outcome for ran in run(codes=codes)] == ["done"]
    assert calls == [((5,), {})] * 3


def test_it_is_asked_if_it_is_safe_to_repeat(calls: list[Any]) -> None:
    cancel_unpaid.enqueue("42")
    row = assert_task_added(cancel_unpaid)
    assert crash_test(cancel_unpaid, row).deaths == 1
    assert set(calls) == {"42"}
    assert assert_task_added(cancel_unpaid) == row


def test_one_of_another_backend_has_no_code() -> None:
    other: Any = task(backend="immediate")(functions.plain)
    calls: list[Callable[[], Any]] = [
        lambda: assert_task_added(other),
        lambda: run_due_tasks(codes=[other]),
        lambda: crash_test(other, Task(biz_code="plain")),
    ]
    for call in calls:
        with pytest.raises(TaskTypeError, match="must be a text, a handler, or a @task function"):
            call()


def test_one_without_a_handler_cannot_be_asked(handlers: Any) -> None:
    with pytest.raises(HandlerError, match=r"functions\.note has no handler in this project"):
        crash_test(note, Task(biz_code="note"))
