"""Finding tasks, and steering all that are found."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from django_tasks import signals
from django_tasks.api import (
    TaskTypeError,
    TaskValueError,
    add_task,
    cancel_tasks,
    delete_tasks,
    find_tasks,
    get_tasks_by_code,
    move_tasks,
    pause,
    requeue_tasks,
    resume,
)
from django_tasks.models import Task
from django_tasks.store import control
from django_tasks.values.status import Status
from tests.factories import CODE, NOW, a_row, in_utc, later, rows, the_row, there_is
from tests.worker.parts import heard

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers", "now")]

PENDING, RUNNING, FAILED, PAUSED, CANCELLING, PAUSING = Status


def numbers(found: Any) -> list[str]:
    return sorted(task.biz_num for task in found)


@pytest.fixture
def some() -> None:
    a_row("1", when=later(60))
    a_row("11", status=FAILED)
    a_row("2", status=RUNNING, queue="mail")
    a_row("1", biz_code="other", status=PAUSED)


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize(
    ("which", "found"),
    [
        ({}, ["1", "1", "11", "2"]),
        ({"biz_code": CODE}, ["1", "11", "2"]),
        ({"biz_num": "1"}, ["1", "1"]),
        ({"biz_num": 1, "biz_code": "other"}, ["1"]),
        ({"when": later(60)}, ["1"]),
        ({"status": FAILED}, ["11"]),
        ({"status": "failed"}, ["11"]),
        ({"status": ["failed", PAUSED, 1]}, ["1", "11", "2"]),
        ({"queue": "mail"}, ["2"]),
        ({"queue": "mail", "status": "failed"}, []),
    ],
)
def test_what_is_named_must_match_exactly(which: Any, found: list[str]) -> None:
    assert numbers(find_tasks(**which)) == found


@pytest.mark.usefixtures("some")
def test_what_is_found_is_a_queryset_that_cannot_write() -> None:
    found = find_tasks(CODE)
    assert found.filter(status=FAILED).count() == 1
    assert found.order_by("-biz_num")[0].biz_num == "2"
    with pytest.raises(RuntimeError, match="behind the workers' backs"):
        found.update(status=PENDING)


@pytest.mark.usefixtures("some")
def test_every_argument_of_get_tasks_by_code_may_be_left_out() -> None:
    add_task("other", "x42y", when=later(30))
    assert [task.biz_num for task in get_tasks_by_code()] == ["x42y", "1"]
    assert numbers(get_tasks_by_code(biz_num="42")) == ["x42y"]
    assert numbers(get_tasks_by_code(biz_num=42)) == ["x42y"]
    assert numbers(get_tasks_by_code(when=later(30))) == ["x42y"]
    assert numbers(get_tasks_by_code(when=later(40))) == ["1"]
    assert get_tasks_by_code(None, None, None).count() == 2


STEER: dict[str, tuple[Callable[..., int], str]] = {
    "cancel_tasks": (cancel_tasks, "cancelled"),
    "requeue_tasks": (requeue_tasks, "requeued"),
    "move_tasks": (lambda **which: move_tasks(later(99), **which), "rescheduled"),
    "pause": (pause, "paused"),
    "resume": (resume, "resumed"),
}


@pytest.fixture(params=STEER)
def steer(request: Any) -> Callable[..., int]:
    return STEER[request.param][0]


# What each does to each status; None: the row goes.
AFTER: dict[str, dict[Status, Status | None]] = {
    "cancel_tasks": {
        PENDING: None,
        FAILED: None,
        PAUSED: None,
        RUNNING: CANCELLING,
        PAUSING: CANCELLING,
        CANCELLING: CANCELLING,
    },
    "requeue_tasks": {FAILED: PENDING},
    "move_tasks": {
        PENDING: PENDING,
        FAILED: PENDING,
        PAUSED: PAUSED,
        RUNNING: RUNNING,
        PAUSING: PAUSING,
        CANCELLING: RUNNING,
    },
    "pause": {PENDING: PAUSED, RUNNING: PAUSING},
    "resume": {PAUSED: PENDING, PAUSING: RUNNING},
}


@pytest.mark.parametrize("name", STEER)
@pytest.mark.parametrize("size", [1, 4, 500])
def test_all_that_match_are_changed_a_batch_at_a_time(name: str, size: int) -> None:
    call, change = STEER[name]
    for status in Status:
        for number in range(3):
            a_row(f"{status.name}-{number}", status=status)
    a_row("9", biz_code="other", status=FAILED)
    after = AFTER[name]
    so_far: list[int] = []

    with heard(signals.tasks_changed) as told:
        count = call(biz_code=CODE, batch_size=size, progress=so_far.append)

    assert count == so_far[-1] == 3 * len(after)
    assert so_far == sorted(so_far)
    for status in Status:
        for number in range(3):
            row = Task.objects.filter(biz_num=f"{status.name}-{number}").first()
            assert (row and Status(row.status)) == after.get(status, status)
    assert the_row("9", "other").status == FAILED
    (message,) = told
    assert (message["change"], message["which"]["biz_code"]) == (change, CODE)
    assert message["count"] == count


def test_moved_tasks_wait_for_the_new_time() -> None:
    rows(range(3))
    assert move_tasks(later(60), biz_code=CODE, when=NOW) == 3
    assert {in_utc(task.when) for task in Task.objects.all()} == {later(60)}


def test_all_that_have_failed_are_requeued_if_nothing_is_named() -> None:
    a_row("1", status=FAILED)
    a_row("1", biz_code="other", status=FAILED, attempts=5, last_error="x")
    assert requeue_tasks(status=None) == 2
    row = the_row("1", "other")
    assert (row.status, row.attempts, row.last_error, in_utc(row.when)) == (PENDING, 0, "", NOW)


@pytest.mark.parametrize("name", [name for name in STEER if name != "requeue_tasks"])
def test_something_must_be_named_otherwise(name: str) -> None:
    a_row()
    call, _ = STEER[name]
    for which in ({}, {"biz_code": None, "queue": None}):
        with pytest.raises(TaskValueError, match="biz_code or another filter must be given"):
            call(**which)
    assert there_is()


@pytest.mark.parametrize(
    ("which", "error"),
    [
        ({"biz_code": ""}, "biz_code must not be empty"),
        ({"biz_num": True}, "biz_num must be a string"),
        ({"when": 7}, "when must be a datetime"),
        ({"status": "lost"}, "status must be one of 'pending'"),
        ({"status": 99}, "status must be one of 'pending'"),
        ({"status": [1, None]}, "status must be one of 'pending'"),
        ({"status": 1.5}, "status must be a Status"),
        ({"queue": " x"}, "queue must not begin"),
        ({"biz_cod": "x"}, "did you mean 'biz_code'"),
        ({"batch_size": 0, "biz_code": "x"}, "batch_size must be"),
    ],
)
def test_a_value_that_no_task_can_have_is_refused(
    steer: Callable[..., int], which: Any, error: str
) -> None:
    with pytest.raises(TaskValueError, match=error):
        steer(**which)
    if "batch_size" not in which and "biz_cod" not in which:
        with pytest.raises(TaskValueError, match=error):
            find_tasks(**which)


def test_a_task_that_is_changed_since_it_was_found_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows(range(4))
    intact = control.among

    def somebody_was_faster(*args: Any, using: str) -> Any:
        Task._base_manager.filter(biz_num="3").update(queue="other")
        return intact(*args, using=using)

    monkeypatch.setattr(control, "among", somebody_was_faster)
    assert cancel_tasks(biz_code=CODE, queue="default") == 3
    assert numbers(Task.objects.all()) == ["3"]


def test_what_was_done_stays_done_if_the_progress_raises() -> None:
    rows(range(6))

    def stop(count: int) -> None:
        if count == 4:
            raise KeyboardInterrupt

    with heard(signals.tasks_changed) as told, pytest.raises(KeyboardInterrupt):
        cancel_tasks(biz_code=CODE, batch_size=2, progress=stop)
    assert Task.objects.count() == 2
    assert [message["count"] for message in told] == [4]


def test_inside_a_transaction_all_of_it_is_a_part_of_that() -> None:
    rows(range(4))
    with transaction.atomic():
        assert cancel_tasks(biz_code=CODE, batch_size=2) == 4
        transaction.set_rollback(True)
    assert Task.objects.count() == 4


# All of a code


def test_all_tasks_of_a_code_are_deleted_where_that_is_said() -> None:
    rows(range(3))
    a_row("1", biz_code="other")
    assert delete_tasks(CODE, "", match="all", dry_run=True) == 3
    assert delete_tasks(CODE, "", match="all") == 3
    assert [task.biz_code for task in Task.objects.all()] == ["other"]


def test_and_only_there() -> None:
    a_row()
    with pytest.raises(TaskValueError, match="biz_num must not be empty"):
        delete_tasks(CODE, "")
    with pytest.raises(TaskValueError, match="must be empty with match='all'"):
        delete_tasks(CODE, "1", match="all")
    with pytest.raises(TaskTypeError):
        find_tasks(status=object())  # type: ignore[arg-type]
    assert there_is()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("cancel_tasks", cancel_tasks),
        ("requeue_tasks", requeue_tasks),
        ("move_tasks", partial(move_tasks, timedelta(0))),
        ("pause", pause),
        ("resume", resume),
    ],
)
def test_a_wrong_name_is_told_of_the_function_that_was_called(
    name: str, call: Callable[..., int]
) -> None:
    with pytest.raises(TaskTypeError) as raised:
        call(code="x")
    assert str(raised.value) == (f"code is no argument of {name}(); did you mean 'biz_code'?: 'x'")
