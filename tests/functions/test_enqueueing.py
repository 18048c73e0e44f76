"""Calls become rows: their codes, their keys, and all that is refused before."""

from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.tasks import TaskResultStatus, default_task_backend, task
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_tasks.api import (
    CancelResult,
    TaskExists,
    TaskOptions,
    TaskValueError,
    add_task,
    cancel_task,
    get_task,
    pause_tasks,
)
from django_tasks.backend import KeyedTask, aenqueue_many, enqueue_many, options
from django_tasks.client.pauses import resume_tasks
from django_tasks.models import Task
from django_tasks.store import clock
from django_tasks.values.calls import code_of
from tests.functions import functions
from tests.functions.functions import cancel_unpaid, echo, note

pytestmark = pytest.mark.django_db

PATH = "tests.functions.functions.note"
HOUR = timedelta(hours=1)


def keyed(task: Any, **facts: Any) -> KeyedTask:
    """A task with a key, as its type has it."""
    made = task.using(**facts)
    assert isinstance(made, KeyedTask)
    return made


# What a call is


def test_a_call_is_a_row_of_its_function(calls: list[Any]) -> None:
    before = clock.now("default")
    result = note.using(queue_name="mail", priority=7).enqueue(1, b=[2, None])
    row = Task.objects.get()
    assert result.id == f"{row.biz_code}:{row.biz_num}"
    assert (row.biz_code, row.queue, row.priority) == (PATH, "mail", 7)
    assert before <= row.when <= clock.now("default")
    assert (row.biz_ext["args"], row.biz_ext["kwargs"]) == ([1], {"b": [2, None]})
    assert len(row.biz_num) == 22
    assert calls == []


def test_ids_are_shorter_than_django_promises() -> None:
    assert len(note.enqueue().id) < 64


def test_it_waits_for_its_time() -> None:
    when = datetime(2031, 2, 3, 4, 5, tzinfo=timezone.utc)
    result = note.using(run_after=when).enqueue()
    assert Task.objects.get().when == when
    assert result.task.run_after == when


def test_the_time_may_be_a_timedelta_from_now() -> None:
    keyed(note, run_after=HOUR).enqueue()
    ahead = Task.objects.get().when - clock.now("default")
    assert timedelta(minutes=59) < ahead <= HOUR


@override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai")
def test_without_time_zones_times_are_local() -> None:
    result = note.using(run_after=datetime(2031, 2, 3, 4, 5)).enqueue()
    assert Task.objects.get().when == datetime(2031, 2, 3, 4, 5)
    assert result.enqueued_at is not None
    assert result.enqueued_at.tzinfo is None
    assert default_task_backend.get_result(result.id) == result


def test_a_long_path_has_a_code_that_fits() -> None:
    path = f"a.very.long.path.{'x' * 60}.function"
    assert len(code_of(path)) == 40
    assert code_of(path) != code_of(f"b{path[1:]}")
    assert code_of("shop.tasks.send") == "shop.tasks.send"


def test_a_function_may_have_a_code_of_its_own() -> None:
    assert cancel_unpaid.enqueue("7").id.startswith("cancel_unpaid:")


def test_a_call_costs_no_more_statements_than_a_task() -> None:
    note.enqueue()  # the database's clock is read now and then
    with CaptureQueriesContext(connection) as queries:
        add_task("job")
    statements = len(queries)
    with CaptureQueriesContext(connection) as queries:
        note.enqueue(1)
    assert len(queries) == statements


def test_a_call_lives_and_dies_with_the_transaction() -> None:
    with transaction.atomic():
        note.enqueue()
        transaction.set_rollback(True)
    assert not Task.objects.exists()


def test_a_receiver_that_raises_takes_nothing_back() -> None:
    def receiver(**facts: Any) -> None:
        raise RuntimeError

    task_enqueued.connect(receiver)
    try:
        note.enqueue()
    finally:
        task_enqueued.disconnect(receiver)
    assert Task.objects.count() == 1


def test_all_that_steers_a_code_steers_a_function() -> None:
    assert pause_tasks(biz_code=PATH)
    note.enqueue()
    assert resume_tasks(biz_code=PATH)


# Keys


def test_a_call_with_a_key_is_moved_by_the_next_one() -> None:
    first = keyed(cancel_unpaid, key="42", run_after=HOUR).enqueue("42")
    second = keyed(cancel_unpaid, key=42).enqueue("forty-two")
    assert first.id == second.id == "cancel_unpaid:42"
    assert Task.objects.get().biz_ext["args"] == ["forty-two"]


@pytest.mark.parametrize("key", [42, "42", "a:b", "x y", "é", UUID(int=7)])
def test_a_key_finds_its_call_and_cancels_it(key: Any) -> None:
    cancel_unpaid_at = keyed(cancel_unpaid, key=key)
    result = cancel_unpaid_at.enqueue("42")
    assert cancel_unpaid.get_result(cancel_unpaid_at.result_id(key)) == result
    assert get_task("cancel_unpaid", key) is not None
    assert cancel_unpaid_at.cancel() is CancelResult.CANCELLED
    assert cancel_unpaid_at.cancel(key) is CancelResult.NOT_FOUND


def test_the_functions_of_the_api_know_it() -> None:
    keyed(note, key="1", run_after=HOUR).enqueue()
    assert cancel_task(keyed(note).biz_code, "1") is CancelResult.CANCELLED


def test_keep_returns_the_call_that_stands() -> None:
    first = keyed(echo, key="1", run_after=HOUR).enqueue("first")
    heard: list[Any] = []

    def receiver(task_result: Any, **facts: Any) -> None:
        heard.append(task_result)

    task_enqueued.connect(receiver)
    try:
        second = keyed(echo, key="1", on_conflict="keep").enqueue("second")
    finally:
        task_enqueued.disconnect(receiver)
    assert (second.args, second.enqueued_at) == (["first"], first.enqueued_at)
    assert heard == []


def test_earliest_moves_it_forward_only() -> None:
    keyed(echo, key="1", run_after=HOUR).enqueue("first")
    later = keyed(echo, key="1", run_after=2 * HOUR, on_conflict="earliest").enqueue("second")
    assert later.args == ["first"]
    sooner = keyed(echo, key="1", on_conflict="earliest").enqueue("third")
    assert sooner.args == ["third"]


def test_raise_raises() -> None:
    unique = keyed(echo, key="1", run_after=HOUR, on_conflict="raise")
    unique.enqueue("first")
    with pytest.raises(TaskExists):
        unique.enqueue("second")


def test_debounced_it_waits_until_nobody_calls_any_more() -> None:
    debounced = keyed(echo, key="1", on_conflict="debounce", wait=60, at_most=600)
    debounced.enqueue("first")
    assert debounced.enqueue("second").args == ["second"]
    ahead = Task.objects.get().when - clock.now("default")
    assert timedelta(seconds=50) < ahead <= timedelta(seconds=60)


def test_a_key_that_is_too_long_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidTask, match="more than the limit of 32"):
        keyed(note, key="x" * 33)
    keyed(note, key="x" * 32).enqueue()


@pytest.mark.parametrize("key", ["", " x", "@schedule", True, 1.5, b"x", "a\nb", "a\x9bb"])
def test_a_key_that_no_row_can_have_is_refused(key: Any) -> None:
    with pytest.raises(InvalidTask, match="key"):
        keyed(note, key=key)


@pytest.mark.parametrize(
    "facts",
    [
        {"on_conflict": "keep"},
        {"key": "1", "max_attempts": 0},
        {"timeout": -1},
        {"backoff": "x"},
        {"queue_name": "x" * 51},
        {"queue_name": " x"},
        {"queue_name": "a\nb"},
        {"queue_name": "a\x9bb"},
    ],
)
def test_what_cannot_be_used_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        note.using(**facts)


@pytest.mark.parametrize(
    "facts",
    [
        {"on_conflict": "never"},
        {"on_conflict": "debounce"},
        {"wait": 5},
        {"on_conflict": "debounce", "wait": 5, "run_after": HOUR},
        {"on_conflict": "debounce", "wait": -5},
        {"on_conflict": "debounce", "wait": "soon"},
        {"on_conflict": "debounce", "wait": 60, "at_most": 30},
    ],
)
def test_a_conflict_that_means_nothing_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        keyed(note, key="1", **facts)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'kye'"):
        keyed(note, kye="1")


def test_options_of_one_call_are_kept_with_its_row() -> None:
    keyed(note, max_attempts=7, backoff=[1, 2], timeout=5).enqueue()
    assert Task.objects.get().options == TaskOptions(max_attempts=7, backoff=[1, 2], timeout=5)


def test_what_a_function_says_itself_is_not_written_again() -> None:
    note.enqueue()
    assert not Task.objects.get().options


def test_a_call_by_another_backend_has_the_terms_of_that() -> None:
    note.using(backend="other").enqueue()
    assert Task.objects.get().options == TaskOptions(max_attempts=2, backoff=0)


# Arguments


@pytest.mark.parametrize("value", [{1}, UUID(int=1), object(), datetime(2031, 1, 1)])
def test_arguments_that_are_not_json_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        note.enqueue(value)
    assert not Task.objects.exists()


def test_bytes_and_tuples_are_taken_as_django_does() -> None:
    assert note.enqueue(b"abc", (1, 2)).args == ["abc", [1, 2]]


@pytest.mark.parametrize("kind", ["nan", "nul", "big", "deep"])
def test_arguments_that_no_database_can_store_are_refused(kind: str) -> None:
    with pytest.raises(TaskValueError, match="args and kwargs"):
        note.enqueue(value=functions.VALUES[kind])
    assert not Task.objects.exists()


# Functions


def test_a_function_that_another_decorator_hides_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(functions, "note", lambda: None)
    path = r"tests\.functions\.functions\.note"
    with pytest.raises(InvalidTask, match=f"No worker could import {path}"):
        note.enqueue()
    assert not Task.objects.exists()


def test_one_of_the_main_program_is_refused() -> None:
    def main() -> None:
        """Stands in the program that was started."""

    main.__module__, main.__qualname__ = "__main__", "main"
    with pytest.raises(InvalidTask, match=r"No worker could import __main__\.main"):
        task(main).enqueue()


@pytest.mark.parametrize("code", ["x" * 51, "a:b", "", " x", 5])
def test_a_code_that_cannot_be_used_is_refused(code: Any) -> None:
    def named() -> None:
        """Has a code of its own."""

    named.__qualname__ = "named"
    with pytest.raises(InvalidTask, match=r"test_enqueueing\.named: biz_code"):
        task(options(biz_code=code)(named))


# Many


def test_many_calls_are_stored_together(django_assert_max_num_queries: Any) -> None:
    note.enqueue()
    with django_assert_max_num_queries(4):
        results = enqueue_many(note, [([number], {"b": number}) for number in range(100)])
    assert [result.args for result in results] == [[number] for number in range(100)]
    assert {result.status for result in results} == {TaskResultStatus.READY}
    assert Task.objects.count() == 101
    assert default_task_backend.get_result(results[7].id) == results[7]


def test_of_many_calls_all_are_stored_or_none() -> None:
    with pytest.raises(TypeError):
        enqueue_many(note, [([1], {}), ([object()], {})])
    assert not Task.objects.exists()


def test_none_is_nothing() -> None:
    assert enqueue_many(note, []) == []


def test_a_key_is_for_one_call() -> None:
    with pytest.raises(InvalidTask, match="key"):
        enqueue_many(keyed(note, key="1"), [([], {})])


def test_many_calls_of_another_backend_are_refused() -> None:
    with pytest.raises(InvalidTask, match="another backend, 'dummy'"):
        enqueue_many(note.using(backend="dummy"), [([], {})])


def test_many_calls_from_async_code() -> None:
    results = async_to_sync(aenqueue_many)(note, [([1], {}), ([2], {})])
    assert len({result.id for result in results}) == 2


def test_a_row_that_add_task_has_made_is_no_call() -> None:
    add_task(PATH, "1", biz_ext={"a": 1})
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(f"{PATH}:1")
