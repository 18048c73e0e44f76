"""Payloads through every door: what is taken comes back equal on each database, or is refused."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given

from django_tasks.api import (
    Finished,
    TaskValueError,
    add_task,
    add_tasks,
    get_runs,
    get_task,
    register_task_handler,
    task_handler,
    update_task,
)
from django_tasks.handlers import registry
from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import Task, TaskRun
from django_tasks.testing import captured_tasks, running_task
from django_tasks.values.status import Status
from tests.factories import a_task as unstored
from tests.payloads import refused, taken, written
from tests.test_payload import values
from tests.worker.conftest import Register
from tests.worker.parts import CODE, ago, handler, stored
from tests.worker.test_history import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

LONG_AGO = ago(10.0)

# Doors: each takes a value in at one place, and yields it from all where it can be seen.
Door = Callable[[Any], Iterator[Any]]


def run(handle: Callable[[RunningTask], Any], biz_ext: Any = None, **attributes: Any) -> None:
    """Have a worker run a task that is due now."""
    add_task(CODE, "1", when=LONG_AGO, biz_ext=biz_ext)
    register_task_handler(handler(handle, **attributes))
    try:
        World().work()
    finally:
        registry.forget()


def add(value: Any) -> Iterator[Any]:
    yield add_task(CODE, "1", biz_ext=value).biz_ext
    yield stored().biz_ext
    found = get_task(CODE, "1")
    yield found and found.biz_ext


def add_again(value: Any) -> Iterator[Any]:
    for conflict in ("replace", "earliest"):
        add_task(CODE, "1", when=timedelta(hours=1))
        at = timedelta(minutes=1)
        yield add_task(CODE, "1", when=at, biz_ext=value, on_conflict=conflict).biz_ext
        yield stored().biz_ext


def add_many(value: Any) -> Iterator[Any]:
    add_tasks([unstored(str(n), biz_code=CODE, biz_ext=value) for n in range(8)])
    for task in Task.objects.all():
        yield task.biz_ext


def debounce(value: Any) -> Iterator[Any]:
    for each in ("first", value):
        task = add_task(CODE, "1", biz_ext=each, on_conflict="debounce", wait=60)
    yield task.biz_ext
    yield stored().biz_ext


def update(value: Any) -> Iterator[Any]:
    add_task(CODE, "1")
    update_task(CODE, "1", biz_ext=value)
    yield stored().biz_ext


def read(value: Any) -> Iterator[Any]:
    seen: list[Any] = []
    run(lambda task: seen.append(task.biz_ext), biz_ext=value)
    yield from seen


def stay(value: Any) -> Iterator[Any]:
    """A handler that reads it and comes again."""
    hours = {True: timedelta(hours=1), False: timedelta(hours=2)}
    run(lambda task: hours[bool(task.biz_ext)], biz_ext=value)
    yield stored().biz_ext


def leave(value: Any) -> Iterator[Any]:
    """A handler that sets it and comes again."""

    def handle(task: RunningTask) -> timedelta:
        task.biz_ext = value
        return timedelta(hours=1)

    run(handle)
    yield stored().biz_ext


def save(value: Any) -> Iterator[Any]:
    seen: list[Any] = []

    def handle(task: RunningTask) -> timedelta:
        task.save(value)
        seen.append(stored().biz_ext)
        return timedelta(hours=1)

    run(handle)
    yield from [*seen, stored().biz_ext]


def finish(value: Any) -> Iterator[Any]:
    for atomic in (False, True):
        run(lambda task: Finished(value), atomic=atomic)
        for line in get_runs(CODE, "1"):
            yield line.return_value


def finish_together(value: Any) -> Iterator[Any]:
    def handle_batch(tasks: list[Any]) -> Any:
        return {task: Finished(value) for task in tasks}

    add_tasks([unstored(str(n), biz_code=CODE, when=LONG_AGO) for n in range(3)])
    register_task_handler(task_handler(CODE, batch=10)(handle_batch))  # type: ignore[arg-type]
    try:
        World().work()
    finally:
        registry.forget()
    for line in TaskRun.objects.all():
        yield line.return_value


DOORS: list[Door] = [
    *(add, add_again, add_many, debounce, update),
    *(read, stay, leave, save, finish, finish_together),
]
doors = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)


@pytest.fixture(autouse=True)
def _own_handlers(register: Register) -> None:
    """The registry is as before after the test."""


@doors
@taken
def test_a_payload_that_is_taken_comes_back_equal(door: Door, value: Any) -> None:
    seen = list(door(value))
    assert seen
    for got in seen:
        assert got == value
        assert written(got) == written(value)


@given(value=values)
@example(value=[1e16, {"a": 5e-324}, -1.5e300, 2**64 - 1])
def test_a_run_finds_and_leaves_any_payload_as_it_was(value: Any) -> None:
    for door in (stay, leave, finish):
        for got in door(value):
            assert written(got) == written(value)
        Task._base_manager.all().delete()
        TaskRun.objects.all().delete()


@doors
def test_a_zero_has_no_sign(door: Door) -> None:
    for got in door([-0.0, {"-0.0": "-0.0, -0.05"}, -0.05, -0.0]):
        assert repr(got) == repr([0.0, {"-0.0": "-0.0, -0.05"}, -0.05, 0.0])


@doors
def test_of_keys_that_are_one_text_the_last_stands(door: Door) -> None:
    for got in door({1: "first", "1": "last", "a": [1, (2, 3)]}):
        assert got == {"1": "last", "a": [1, [2, 3]]}


@doors
def test_no_statement_looks_for_what_a_payload_says(door: Door, queries: Any) -> None:
    """Servers write it otherwise: keys in another order, floats in another form."""
    with queries() as sent:
        list(door({"b": 1e16, "aa": 0.1, "a": "2026-01-31"}))
    assert any("biz_ext" in query["sql"] for query in sent)
    for query in sent:
        condition = query["sql"].partition("WHERE ")[2].partition("RETURNING ")[0]
        assert "biz_ext" not in condition


# A payload that servers write otherwise, and three people who write it.

ODD = {"b": 1e16, "aa": [1e300, -0.0, 5e-324], "a": {"\u00e4": 2**64 - 1, "": 0.1 + 0.2}}


def test_it_is_untouched_for_a_run_that_saves_it_twice(queries: Any) -> None:
    answers: list[Any] = []

    def handle(task: RunningTask) -> timedelta:
        answers.extend([task.save(task.biz_ext), task.save(task.biz_ext), task.changed_payload()])
        return timedelta(hours=1)

    run(handle, biz_ext=ODD)
    assert answers[:2] == [True, True]
    assert stored().biz_ext == ODD


def test_a_run_that_has_read_it_has_not_changed_it() -> None:
    answers: list[Any] = []

    def handle(task: RunningTask) -> None:
        assert task.biz_ext == ODD
        task.biz_ext = dict(reversed(ODD.items()))
        answers.append(task.changed_payload())

    run(handle, biz_ext=ODD)
    assert answers == [None]


@pytest.mark.parametrize("other", [ODD, {"other": 1e20}], ids=["the same", "another"])
def test_what_is_written_during_a_run_stands(other: Any) -> None:
    answers: list[Any] = []

    def handle(task: RunningTask) -> timedelta:
        update_task(CODE, "1", biz_ext=other)
        answers.append(task.save("ours"))
        task.biz_ext = "ours"
        return timedelta(hours=1)

    run(handle, biz_ext=ODD)
    assert answers == [False]
    assert stored().biz_ext == other


# What is refused


Refusing = Callable[[Any], object]
CALLS: list[Refusing] = [
    lambda value: add_task(CODE, "1", biz_ext=value),
    lambda value: add_task(CODE, "1", biz_ext=value, on_conflict="keep"),
    lambda value: add_task(CODE, "1", biz_ext=value, on_conflict="debounce", wait=60),
    lambda value: add_tasks([unstored("2", biz_code=CODE), unstored(biz_code=CODE, biz_ext=value)]),
    lambda value: update_task(CODE, "1", biz_ext=value),
]


@pytest.mark.parametrize(
    "call", CALLS, ids=["add_task", "keep", "debounce", "add_tasks", "update_task"]
)
@refused
def test_a_payload_is_refused_before_anything_is_stored(
    call: Refusing, value: Any, word: str, queries: Any
) -> None:
    add_task(CODE, "1", biz_ext="before")
    with pytest.raises(TaskValueError, match=word) as caught, queries() as sent:
        call(value)
    assert caught.value.field == "biz_ext"
    assert caught.value.index == (1 if "item" in str(caught.value) else None)
    assert not [query for query in sent if query["sql"].startswith(("INSERT", "UPDATE"))]
    assert [task.biz_ext for task in Task.objects.all()] == ["before"]


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("way", ["returns", "saves", "is finished with"])
@refused
def test_a_run_that_leaves_it_has_failed(way: str, atomic: bool, value: Any, word: str) -> None:
    """As by any other error: it is tried again, as often as others are."""

    def handle(task: RunningTask) -> Any:
        if way == "saves":
            task.save(value)
        task.biz_ext = value if way == "returns" else "another"
        return Finished(value) if way == "is finished with" else timedelta(hours=1)

    run(handle, biz_ext="before", atomic=atomic, max_attempts=1)
    row = stored()
    assert (row.status, row.biz_ext, row.attempts) == (Status.FAILED, "before", 1)
    assert "TaskValueError" in row.last_error
    assert word in row.last_error
    field = "return_value" if way == "is finished with" else "biz_ext"
    assert f"{field} " in row.last_error


@pytest.mark.parametrize("atomic", [False, True])
@refused
def test_one_of_a_batch_fails_alone(atomic: bool, value: Any, word: str) -> None:
    def handle_batch(tasks: list[Any]) -> Any:
        for task in tasks:
            task.biz_ext = value if task.biz_num == "2" else "after"
        return dict.fromkeys(tasks, timedelta(hours=1))

    add_tasks([unstored(n, biz_code=CODE, when=LONG_AGO, biz_ext="before") for n in "1234"])
    batch = task_handler(CODE, batch=10, max_attempts=1, atomic=atomic)
    register_task_handler(batch(handle_batch))  # type: ignore[arg-type]
    World().work()
    ends = {row.biz_num: (row.status, row.biz_ext) for row in Task.objects.all()}
    well = (Status.PENDING, "after")
    assert ends == {"1": well, "2": (Status.FAILED, "before"), "3": well, "4": well}
    assert word in stored("2").last_error


def test_what_a_run_has_only_read_is_not_refused(settings: Any) -> None:
    """It was stored under another limit, or by somebody else."""
    add_task(CODE, "1", when=LONG_AGO, biz_ext=["\u00e4" * 50])
    settings.DJANGO_TASKS = {"PAYLOAD_LIMIT": 20}
    seen: list[Any] = []

    def handle(task: RunningTask) -> timedelta:
        seen.append(task.biz_ext)
        return timedelta(hours=1)

    register_task_handler(handler(handle, max_attempts=1))
    World().work()
    assert stored().status == Status.PENDING
    assert seen == [stored().biz_ext] == [["\u00e4" * 50]]


# The testing kit


@refused
def test_the_testing_kit_refuses_what_the_database_is_not_asked_to_take(
    value: Any, word: str
) -> None:
    with captured_tasks() as captured, pytest.raises(TaskValueError, match=word):
        add_task(CODE, "1", biz_ext=value)
    assert not captured
    with pytest.raises(TaskValueError, match=word):
        running_task(CODE, "1", biz_ext=value)
    with pytest.raises(TaskValueError, match=word):
        running_task(CODE, "1").save(value)


@taken
def test_in_the_testing_kit_a_payload_comes_back_equal(value: Any) -> None:
    with captured_tasks() as captured:
        add_task(CODE, "1", biz_ext=value)
    assert written(captured[0].biz_ext) == written(value)
    assert written(running_task(CODE, "1", biz_ext=value).biz_ext) == written(value)
