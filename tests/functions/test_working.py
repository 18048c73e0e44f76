"""Calls that run: what functions get, what becomes of their values and their errors."""

import copy
import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.tasks import TaskResultStatus, default_task_backend, task
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_finished, task_started
from django.test import override_settings

from django_tasks import signals
from django_tasks.api import (
    CancelResult,
    cancel_task,
    get_runs,
    pause_task,
    requeue_task,
    resume_task,
    run_task_now,
)
from django_tasks.backend import options
from django_tasks.client.adding import add_task
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task, TaskRun, WorkerRow
from django_tasks.store import clock
from django_tasks.store import rescue as store
from django_tasks.values.claimed import Claimed
from django_tasks.worker import rescuer
from django_tasks.worker.worker import Worker
from tests.factories import table
from tests.functions import functions
from tests.functions.functions import (
    answer_badly,
    cancel_unpaid,
    echo,
    echo_async,
    fail,
    fail_in_groups,
    hourly,
    in_one_transaction,
    note,
    third_time,
)
from tests.functions.test_enqueueing import keyed
from tests.payloads import refused, taken, written
from tests.waiting import DEADLINE
from tests.worker.parts import USING, claimed, config, worker_row
from tests.worker.test_history import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

ECHO = "tests.functions.functions.echo"
READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


def after(result: Any, times: int = 1) -> Any:
    """The result as it is when a worker has done what is due."""
    world = World()
    for _ in range(times):
        world.work()
    result.refresh()
    return result


@pytest.fixture
def heard() -> Iterator[list[tuple[str, Any]]]:
    """The news of Django's own signals, with a copy of each result."""
    told: list[tuple[str, Any]] = []

    def started(task_result: Any, **facts: Any) -> None:
        told.append(("started", copy.copy(task_result)))

    def finished(task_result: Any, **facts: Any) -> None:
        told.append(("finished", copy.copy(task_result)))

    task_started.connect(started)
    task_finished.connect(finished)
    yield told
    task_started.disconnect(started)
    task_finished.disconnect(finished)


# Well


@pytest.mark.parametrize("value", [None, 1, "ä", [1, {"a": [None]}], {}, ""])
def test_a_value_comes_back(value: Any) -> None:
    result = after(echo.enqueue(value))
    assert (result.status, result.return_value) == (SUCCESSFUL, value)
    assert not Task.objects.exists()
    assert (result.attempts, result.errors) == (1, [])
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.started_at == result.last_attempted_at


@taken
def test_arguments_and_values_come_back_equal_from_every_database(value: Any) -> None:
    result = after(echo.enqueue(value))
    stored = default_task_backend.get_result(result.id)
    for got in (result.return_value, stored.return_value, stored.args[0]):
        assert written(got) == written(value)


@taken
def test_so_do_those_of_a_task_that_was_not_enqueued(value: Any) -> None:
    add_task(ECHO, "1", biz_ext=[value])
    world = World()
    for _ in range(2):  # the first time it finds the function
        world.work()
    (run,) = get_runs(ECHO, "1")
    assert run.detail is not None
    assert written(run.detail["args"]) == written([value])
    assert written(run.return_value) == written(value)


@refused
def test_arguments_that_no_database_keeps_are_refused(value: Any, word: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        echo.enqueue(value)
    assert not Task.objects.exists()


def test_arguments_reach_the_function(calls: list[Any]) -> None:
    note.enqueue(1, "a", b=[2], c=None)
    World().work()
    assert calls == [((1, "a"), {"b": [2], "c": None})]


def test_a_call_of_old_whose_names_have_control_characters_runs(calls: list[Any]) -> None:
    keyed(note, key="old").enqueue(1)
    row = Task.objects.get()
    words = row.biz_ext | {"key": "a\nb", "queue_name": "c\x9bd"}
    table(pk=row.pk).update(biz_num="a\nb", queue="c\x9bd", biz_ext=words)
    World().work()
    assert calls == [((1,), {})]


@pytest.mark.django_db(transaction=True)
def test_so_do_those_of_an_async_one() -> None:
    result = echo_async.enqueue({"a": [1]})
    worker = Worker(config(until_empty=True))
    worker.start()
    assert worker.join(DEADLINE)
    result.refresh()
    value: Any = result.return_value
    assert (result.status, value) == (SUCCESSFUL, {"a": [1]})


def test_a_function_knows_its_context(calls: list[Any]) -> None:
    result = after(third_time.enqueue(), times=3)
    assert calls == [1, 2, 3]
    found, attempts, errors = result.return_value
    assert (found, attempts) == (result.id, 3)
    assert [error.splitlines()[-1] for error in errors] == [
        "ValueError: not at 1",
        "ValueError: not at 2",
    ]
    assert (result.attempts, len(set(result.worker_ids))) == (3, 1)


def test_between_two_attempts_it_is_ready() -> None:
    result = after(keyed(third_time, backoff=60).enqueue())
    assert (result.status, result.attempts, len(result.errors)) == (READY, 1, 1)
    assert result.finished_at is None


def test_django_hears_of_the_start_and_of_the_end(heard: list[Any]) -> None:
    echo.enqueue(1)
    World().work()
    assert [(name, result.status) for name, result in heard] == [
        ("started", RUNNING),
        ("finished", SUCCESSFUL),
    ]
    assert heard[1][1].return_value == 1


def test_results_are_pickled_and_copied() -> None:
    result = after(echo.enqueue([1]))
    assert copy.deepcopy(result).return_value == [1]
    if hasattr(type(result.task), "_reconstruct"):  # from Django 6.1 on
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301 - its own


@pytest.mark.parametrize("kept", ["problems", "none"])
def test_a_result_that_nobody_wants_is_gone(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = echo.enqueue(1)
    handler = handler_for("tests.functions.functions.echo")
    monkeypatch.setitem(vars(handler), "history", kept)
    World().work()
    assert not TaskRun.objects.exists()
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(result.id)


def test_in_one_transaction_with_its_effects(calls: list[Any]) -> None:
    result = after(in_one_transaction.enqueue(), times=2)
    assert (calls, result.return_value) == ([0, 0], 0)
    assert Task.objects.filter(biz_code="effect").count() == 1


# Badly


@pytest.mark.parametrize(
    ("kind", "path", "end"),
    [
        ("", "builtins.ValueError", "ValueError: oh\n"),
        ("exit", "builtins.SystemExit", "SystemExit: 3\n"),
        ("interrupt", "builtins.KeyboardInterrupt", "KeyboardInterrupt: stop\n"),
        ("generator", "builtins.GeneratorExit", "GeneratorExit: gone\n"),
        ("lines", "builtins.ValueError", "ValueError: one:\ntwo: three\n"),
        ("local", "tests.functions.functions.fail.<locals>.Local", "Local: here\n"),
    ],
)
def test_a_failure_is_told_with_its_class(kind: str, path: str, end: str, heard: list[Any]) -> None:
    result = after(fail.enqueue(kind))
    assert (result.status, result.attempts) == (FAILED, 1)
    (error,) = result.errors
    assert error.exception_class_path == path
    assert error.traceback.endswith(end)
    assert "functions/handler.py" not in error.traceback
    assert result.finished_at is not None
    name, told = heard[-1]
    assert (name, told.status, len(told.errors)) == ("finished", FAILED, 1)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_group_of_failures_is_one_failure() -> None:
    result = after(fail_in_groups.enqueue())
    assert result.errors[0].exception_class_path == "builtins.ExceptionGroup"
    assert "KeyError: 'b'" in result.errors[0].traceback


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nan", "return_value is not JSON"),
        ("nul", "return_value must not contain NUL"),
        ("long", "return_value has a whole number beyond 64 bits"),
        ("big", "return_value is 2000"),
        ("deep", "return_value is nested more than 31 levels deep"),
        ("set", "Unsupported type"),
        ("uuid", "Unsupported type"),
        ("object", "Unsupported type"),
    ],
)
def test_a_value_that_cannot_be_kept_is_a_failure_that_says_so(kind: str, words: str) -> None:
    result = after(answer_badly.enqueue(kind))
    assert result.status == FAILED
    assert words in result.errors[0].traceback


def test_django_hears_of_the_last_failure_only(heard: list[Any]) -> None:
    keyed(fail, max_attempts=2, backoff=0).enqueue()
    world = World()
    world.work()
    assert [name for name, _ in heard] == ["started"]
    world.work()
    assert [name for name, _ in heard] == ["started", "started", "finished"]
    assert [len(result.worker_ids) for _, result in heard] == [1, 2, 2]
    assert len(heard[-1][1].errors) == 2


def test_djangos_log_has_the_traceback(caplog: pytest.LogCaptureFixture) -> None:
    fail.enqueue()
    with caplog.at_level("INFO", "django.tasks"):
        World().work()
    lines = [line for line in caplog.records if line.name == "django.tasks"]
    assert [line.levelname for line in lines] == ["INFO", "ERROR"]
    assert lines[1].exc_info is not None
    assert lines[1].exc_info[0] is ValueError


def test_a_failed_call_that_is_requeued_is_the_same_one(monkeypatch: pytest.MonkeyPatch) -> None:
    result = after(fail.enqueue())
    code, number = result.id.split(":")
    assert requeue_task(code, number)
    result.refresh()
    assert (result.status, result.attempts) == (READY, 1)
    after(result)
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 2, 2)


# While it waits, and while it runs


def test_a_call_that_was_cancelled_has_failed_without_an_error() -> None:
    result = keyed(echo, run_after=timedelta(hours=1)).enqueue(5)
    assert cancel_task(*result.id.split(":")) is CancelResult.CANCELLED
    result.refresh()
    assert (result.status, result.errors, result.attempts) == (FAILED, [], 0)
    assert result.args == [5]
    assert result.finished_at is not None


def test_one_that_is_cancelled_while_it_runs_ends_as_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = keyed(cancel_unpaid, key="1").enqueue("1")
    during(monkeypatch, lambda: cancel_task("cancel_unpaid", "1"))
    after(result)
    assert (result.status, result.return_value) == (SUCCESSFUL, "cancelled 1")
    assert not Task.objects.exists()


def test_a_paused_call_is_ready() -> None:
    result = echo.enqueue(1)
    key = result.id.split(":")
    assert pause_task(*key)
    assert after(result).status == READY
    assert resume_task(*key)
    assert after(result).status == SUCCESSFUL


def test_while_it_runs_it_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    result = keyed(cancel_unpaid, key="1").enqueue("1")
    during(monkeypatch, lambda: seen.append(default_task_backend.get_result(result.id)))
    after(result)
    (then,) = seen
    assert (then.status, then.attempts, then.finished_at) == (RUNNING, 1, None)
    assert then.worker_ids == result.worker_ids
    assert then.started_at is not None


def test_a_call_that_is_moved_while_it_runs_never_shows_the_older_result(
    monkeypatch: pytest.MonkeyPatch, calls: list[Any]
) -> None:
    first = keyed(cancel_unpaid, key="1").enqueue("first")
    again: list[Any] = []
    later = keyed(cancel_unpaid, key="1", run_after=timedelta(hours=1))
    world = World()
    with monkeypatch.context() as patch:
        during(patch, lambda: again.append(later.enqueue("second")))
        world.work()
    (second,) = again
    second.refresh()
    assert (second.status, second.args, second.attempts) == (READY, ["second"], 0)
    assert run_task_now("cancel_unpaid", "1")
    world.work()
    for result in (first, second):
        result.refresh()
        assert (result.status, result.return_value, result.attempts) == (
            SUCCESSFUL,
            "cancelled second",
            1,
        )


def test_the_next_call_of_a_key_has_a_result_of_its_own() -> None:
    first = after(keyed(cancel_unpaid, key="1").enqueue("first"))
    assert first.return_value == "cancelled first"
    second = keyed(cancel_unpaid, key="1").enqueue("second")
    assert second.id == first.id
    assert default_task_backend.get_result(first.id).status == READY
    assert after(second).return_value == "cancelled second"
    assert len(get_runs("cancel_unpaid", "1")) == 2


def during(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something in the middle of each call of ``cancel_unpaid``."""

    class Calls(list[Any]):
        def append(self, item: Any) -> None:
            act()

    monkeypatch.setattr(functions, "CALLS", Calls())


# Workers that die


def test_a_call_whose_worker_has_died_runs_again() -> None:
    result = echo.enqueue(1)
    (claim,) = claimed(worker_row().id, ECHO)
    result.refresh()
    assert (result.status, result.worker_ids) == (RUNNING, ["other"])
    die(claim, attempts=5)
    result.refresh()
    assert (result.status, result.attempts) == (READY, 1)
    after(result)
    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, 1, 2)
    assert [error.exception_class_path for error in result.errors] == ["builtins.Exception"]
    assert "The worker died" in result.errors[0].traceback


def test_one_that_takes_every_worker_with_it_has_failed(heard: list[Any]) -> None:
    result = echo.enqueue(1)
    (claim,) = claimed(worker_row().id, ECHO)
    Task._base_manager.update(rescues=2)  # it has survived two of them
    (failed,) = die(claim, attempts=1)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 1, 1)
    signals.task_failed.send_robust(
        None, task=failed, exception=None, error="It died.", using=USING
    )
    assert [(name, told.id, told.status) for name, told in heard] == [
        ("finished", result.id, FAILED)
    ]


def die(claim: Claimed, attempts: int) -> list[Any]:
    """Have another worker rescue a claim; returns the rows that have failed by that."""
    now = clock.now(USING)
    WorkerRow.objects.filter(pk=claim.worker_id).delete()
    rescued = store.rescue(
        [claim.worker_id], lambda row: attempts, now, rescuer._line_at(now), using=USING
    )
    return list(rescued.failed)


# Without words


def test_a_task_that_was_added_by_hand_is_a_call(calls: list[Any]) -> None:
    add_task("tests.functions.functions.note", "1", biz_ext={"a": 1})
    add_task("tests.functions.functions.note", "2", biz_ext=[1, 2])
    add_task("tests.functions.functions.note", "3")
    world = World()
    for _ in range(2):
        world.work()
    assert calls == [((), {"a": 1}), ((1, 2), {}), ((), {})]


def test_a_function_with_a_schedule_is_called_at_its_times(calls: list[Any], handlers: Any) -> None:
    task(options(schedule="every hour")(hourly))
    World().work()
    row = Task.objects.get(biz_num="@schedule")
    assert row.biz_code == "tests.functions.functions.hourly"
    Task._base_manager.update(when=row.when - timedelta(hours=2))
    World().work()
    assert calls == ["hour"]
    (run,) = get_runs("tests.functions.functions.hourly", "@schedule")
    assert (run.outcome, run.return_value) == ("rescheduled", "done")


@override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai")
def test_without_time_zones_all_times_are_local() -> None:
    result = after(echo.enqueue(1))
    times = [result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at]
    assert all(moment.tzinfo is None for moment in times)
    assert times == sorted(times)
