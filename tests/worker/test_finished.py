"""Values that runs leave behind in the history, and the lines of tasks that were cancelled."""

import json
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.db.models import Q
from django.test import override_settings

from django_tasks.api import (
    CancelResult,
    Finished,
    TaskTypeError,
    TaskValueError,
    add_task,
    cancel_task,
    cancel_tasks,
    delete_tasks,
    get_runs,
    register_task_handler,
    task_handler,
)
from django_tasks.models import Task, TaskRun
from django_tasks.store import control
from tests.worker.conftest import Register
from tests.worker.parts import CODE, added
from tests.worker.test_history import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("value", [None, 42, "ä", [1, {"a": None}], {}])
def test_a_run_is_finished_with_a_value(register: Register, value: Any, atomic: bool) -> None:
    register(lambda task: Finished(value), atomic=atomic)
    added()
    World().work()
    assert not Task.objects.exists()
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.return_value) == ("done", value)


def test_a_history_of_nothing_keeps_no_value(register: Register) -> None:
    register(lambda task: Finished(42), history="none")
    added()
    World().work()
    assert get_runs(CODE, "1") == []


def test_the_schedule_goes_on_after_a_value(register: Register) -> None:
    register(lambda task: Finished(task.runs))
    add_task(CODE, "1", schedule=timedelta(hours=1), when=timedelta(seconds=-1))
    World().work()
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.return_value) == ("rescheduled", 0)
    assert Task.objects.get().status == 0


def test_each_task_of_a_batch_has_its_value(register: Register) -> None:
    def handle_batch(tasks: list[Any]) -> Any:
        return {task: Finished(task.biz_num) for task in tasks}

    register_task_handler(task_handler(CODE, batch=10)(handle_batch))  # type: ignore[arg-type]
    for number in "12":
        added(number)
    World().work()
    assert {run.biz_num: run.return_value for run in TaskRun.objects.all()} == {"1": "1", "2": "2"}


@pytest.mark.parametrize(
    ("value", "error"),
    [(object(), TaskTypeError), (math.nan, TaskValueError), ("\0", TaskValueError)],
)
def test_a_value_that_cannot_be_stored_is_refused_where_it_is_given(
    value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="return_value"):
        Finished(value)


def test_a_run_without_a_value_has_none(register: Register) -> None:
    register(lambda task: None, history="all")
    added()
    World().work()
    (run,) = get_runs(CODE, "1")
    assert (run.detail, run.return_value) == (None, None)


class Odd(Exception):
    """An error of the project's own."""


@pytest.mark.parametrize(
    ("attempts", "outcome"), [(1, "failed"), (2, "retried")], ids=["failed", "retried"]
)
def test_the_history_has_the_class_of_an_error(
    register: Register, attempts: int, outcome: str
) -> None:
    def handle(task: Any) -> None:
        raise Odd("a: b\nc: d")

    register(handle, max_attempts=attempts)
    added()
    World().work()
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.exception) == (outcome, f"{__name__}.Odd")


def test_so_it_has_where_a_schedule_goes_on(register: Register) -> None:
    def handle(task: Any) -> None:
        raise Odd

    register(handle, max_attempts=1)
    add_task(CODE, "1", schedule=timedelta(hours=1), when=timedelta(seconds=-1))
    World().work()
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.exception) == ("failed", f"{__name__}.Odd")


def test_a_class_with_a_name_without_end_is_cut(register: Register) -> None:
    kind = type("E" * 500, (Exception,), {})

    def handle(task: Any) -> None:
        raise kind

    register(handle)
    added()
    World().work()
    (run,) = get_runs(CODE, "1")
    assert len(run.exception) == 200


# Cancelled while they wait


@pytest.mark.parametrize("paused", [False, True])
def test_a_history_of_all_runs_tells_of_a_task_that_was_cancelled(
    register: Register, paused: bool
) -> None:
    register(lambda task: None, history="all")
    stored = add_task(CODE, "1", biz_ext={"a": 1}, when=timedelta(hours=1), paused=paused)
    assert cancel_task(CODE, "1") is CancelResult.CANCELLED
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.when, run.attempt, run.worker) == ("cancelled", stored.when, 0, "")
    assert run.detail is None  # a payload may be secret
    assert run.started == run.ended


@pytest.mark.parametrize("history", ["problems", "none"])
def test_others_do_not(register: Register, history: str) -> None:
    register(lambda task: None, history=history)
    add_task(CODE, "1", when=timedelta(hours=1))
    assert cancel_task(CODE, "1")
    assert get_runs(CODE, "1") == []


def test_of_payloads_a_cancel_gets_those_of_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[str | None] = []
    add_task("one", "1", biz_ext={"long": "x" * 1000}, when=timedelta(hours=1))
    add_task("one", "2", biz_ext={"call": "a.b", "life": "c"}, when=timedelta(hours=1))
    now = datetime.now(timezone.utc)

    def line_of(gone: control.Gone) -> None:
        got.append(gone.payload and json.loads(gone.payload)["call"])

    control.cancel(Q(biz_code="one"), now, using="default", line_of=line_of)
    assert got == [None, "a.b"]


@override_settings(DJANGO_TASKS={"HISTORY": "all"})
def test_many_that_are_cancelled_have_a_line_each() -> None:
    for number in range(3):
        add_task("one", number, when=timedelta(hours=1))
        add_task("two", number, when=timedelta(hours=1))
    assert delete_tasks("one", "", match="all") == 3
    assert cancel_tasks(queue="default", batch_size=2) == 3
    assert TaskRun.objects.filter(outcome="cancelled").count() == 6


def test_each_code_has_its_own_history(register: Register) -> None:
    register(lambda task: None, biz_code="told", history="all")
    register(lambda task: None, biz_code="untold", history="none")
    for code in ("told", "untold"):
        add_task(code, "1", when=timedelta(hours=1))
    assert cancel_tasks(queue="default") == 2
    assert [run.biz_code for run in TaskRun.objects.all()] == ["told"]


def test_a_task_that_runs_is_no_task_that_was_cancelled(register: Register) -> None:
    def handle(task: Any) -> None:
        assert cancel_task(CODE, "1") is CancelResult.CANCELLING

    register(handle, history="all")
    added()
    World().work()
    assert [run.outcome for run in get_runs(CODE, "1")] == ["done"]
