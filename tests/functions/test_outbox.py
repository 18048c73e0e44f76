"""Calls that wait as rows of ours and are run by another backend."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.tasks import TaskResultStatus, task, task_backends
from django.tasks.backends.immediate import ImmediateBackend
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist

from django_tasks.api import CancelResult, TaskOptions, get_runs
from django_tasks.backoff import Exponential
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task
from tests.functions import functions
from tests.functions.conftest import BACKENDS
from tests.functions.functions import cancel_unpaid, echo, note
from tests.functions.others import declared
from tests.functions.test_enqueueing import keyed
from tests.worker.test_history import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

HOUR = timedelta(hours=1)


@pytest.fixture
def to_dummy(settings: Any) -> Any:
    """An outbox before a backend that runs nothing, and shows what it has."""
    settings.TASKS = BACKENDS | {
        "outbox": {
            "BACKEND": "django_tasks.backend.OutboxBackend",
            "QUEUES": [],
            "OPTIONS": {"TO": "dummy", "BACKOFF": 0},
        }
    }
    return task_backends["dummy"]


def test_a_call_waits_here_and_is_handed_over_when_it_is_due(to_dummy: Any) -> None:
    later = note.using(backend="outbox", run_after=None, queue_name="mail", priority=5)
    result = keyed(later, run_after=HOUR).enqueue(1, b=2)
    World().work()
    assert to_dummy.results == []
    Task._base_manager.update(when=Task.objects.get().create_time)
    World().work()
    (there,) = to_dummy.results
    assert (there.args, there.kwargs) == ([1], {"b": 2})
    assert (there.task.queue_name, there.task.priority) == ("mail", 5)
    assert there.task.run_after is None
    assert not Task.objects.exists()
    assert result.id != there.id


def test_its_result_is_that_of_the_other_backend_under_our_id(to_dummy: Any) -> None:
    result = echo.using(backend="outbox").enqueue(1)
    World().work()
    (there,) = to_dummy.results
    object.__setattr__(there, "status", TaskResultStatus.SUCCESSFUL)
    object.__setattr__(there, "_return_value", 42)
    found = task_backends["outbox"].get_result(result.id)
    assert (found.id, found.status, found.return_value) == (
        result.id,
        TaskResultStatus.SUCCESSFUL,
        42,
    )
    assert found.backend == "outbox"
    result.refresh()
    assert result.return_value == 42


def test_of_a_backend_without_results_it_is_known_that_it_has_the_call(calls: list[Any]) -> None:
    result = note.using(backend="outbox").enqueue(1)
    World().work()
    assert calls == [((1,), {})]
    result.refresh()
    assert result.status == TaskResultStatus.READY


def test_a_call_lives_and_dies_with_the_transaction(to_dummy: Any) -> None:
    with transaction.atomic():
        note.using(backend="outbox").enqueue()
        transaction.set_rollback(True)
    World().work()
    assert to_dummy.results == []


def test_it_is_moved_and_cancelled_by_its_key(to_dummy: Any) -> None:
    later = keyed(cancel_unpaid, backend="outbox", key="42", run_after=HOUR)
    later.enqueue("42")
    assert later.cancel() is CancelResult.CANCELLED
    later.enqueue("42")
    keyed(cancel_unpaid, backend="outbox", key="42").enqueue("now")
    World().work()
    assert [there.args for there in to_dummy.results] == [["now"]]


def test_a_backend_that_does_not_answer_is_asked_again(
    to_dummy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: Any, **kwargs: Any) -> Any:
        raise ConnectionError("the broker is down")

    result = note.using(backend="outbox").enqueue()
    world = World()
    with monkeypatch.context() as patch:
        patch.setattr(to_dummy, "enqueue", down)
        world.work()
    code, number = result.id.split(":")
    (run,) = get_runs(code, number)
    assert (run.outcome, run.exception) == ("retried", "builtins.ConnectionError")
    Task._base_manager.update(when=Task.objects.get().create_time)
    world.work()
    assert len(to_dummy.results) == 1


def test_a_broker_that_is_down_for_a_night_costs_no_call() -> None:
    note.using(backend="outbox").enqueue()
    assert Task.objects.get().options.max_attempts == 10_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "TO must be the alias of another backend of TASKS, not None"),
        ({"TO": "outbox"}, "TO leads back to this backend, by 'outbox'"),
        ({"TO": "nowhere"}, "not 'nowhere'"),
    ],
)
def test_an_outbox_that_leads_nowhere_is_said(
    options: dict[str, Any], words: str, settings: Any
) -> None:
    path = "django_tasks.backend.OutboxBackend"
    settings.TASKS = BACKENDS | {"outbox": {"BACKEND": path, "QUEUES": [], "OPTIONS": options}}
    (problem,) = task_backends["outbox"].check()
    assert problem.id == "django_tasks.E007"
    assert words in problem.msg
    with pytest.raises(InvalidTask, match="TO "):
        note.using(backend="outbox")


def test_what_the_other_backend_refuses_is_refused_at_once(settings: Any) -> None:
    settings.TASKS = BACKENDS | {
        "immediate": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}
    }
    with pytest.raises(InvalidTask, match="Queue 'mail' is not valid"):
        note.using(backend="outbox", queue_name="mail")


def test_a_result_that_the_other_backend_has_forgotten_is_not_there(to_dummy: Any) -> None:
    result = note.using(backend="outbox").enqueue()
    World().work()
    to_dummy.clear()
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_with_atomic_a_call_is_handed_over_exactly_once(
    settings: Any, monkeypatch: pytest.MonkeyPatch, handlers: Any
) -> None:
    """The other backend keeps its calls in our database: one that comes and goes with the end."""
    settings.TASKS = BACKENDS | {
        "outbox": {
            "BACKEND": "django_tasks.backend.OutboxBackend",
            "QUEUES": [],
            "OPTIONS": {"TO": "other", "BACKOFF": 60, "ATOMIC": True},
        }
    }
    sent = task(backend="outbox")(functions.plain)
    monkeypatch.setattr(functions, "plain", sent)
    result = sent.enqueue()
    there = task_backends["other"]
    intact = there.enqueue

    def enqueue(*args: Any, **kwargs: Any) -> Any:
        intact(*args, **kwargs)
        raise ConnectionError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(there, "enqueue", enqueue)
        World().work()
    assert [str(row) for row in Task.objects.all()] == [result.id.replace(":", "/")]
    Task._base_manager.update(when=Task.objects.get().create_time)
    World().work()
    (row,) = Task.objects.all()
    assert row.biz_ext["backend"] == "other"


# What a task says of its attempts


@pytest.fixture
def policies(settings: Any) -> Any:
    """The outbox is before a backend whose tasks have attempts, a backoff and a timeout."""
    outbox = BACKENDS["outbox"] | {"OPTIONS": {"TO": "policies"}}
    there = {"BACKEND": "tests.functions.others.PolicyBackend", "QUEUES": []}
    settings.TASKS = BACKENDS | {"outbox": outbox, "policies": there}
    return task_backends["policies"]


def judge(exception: BaseException, task_result: Any) -> int:
    """Is for the other backend."""
    raise AssertionError


def terms(made: Any) -> tuple[Any, Any, Any]:
    return made.max_attempts, made.backoff, made.timeout


def test_the_other_backend_gets_what_a_function_says_of_its_attempts(
    policies: Any, monkeypatch: pytest.MonkeyPatch, handlers: Any
) -> None:
    said: Any = {"max_attempts": 5, "backoff": judge, "timeout": 30}
    made = declared(functions.plain, backend="outbox", **said)
    monkeypatch.setattr(functions, "plain", made)
    made.enqueue()
    assert not Task.objects.get().options
    handler: Any = handler_for(made.biz_code)
    assert (handler.max_attempts, handler.backoff, handler.timeout) == (10_000, Exponential(), None)
    World().work()
    (there,) = policies.results
    assert terms(there.task) == (5, judge, 30)


def test_it_gets_what_a_call_says_of_them(policies: Any) -> None:
    made = keyed(note, backend="outbox", key="1", max_attempts=5, timeout=30)
    result = made.enqueue()
    assert result.task == made
    assert task_backends["outbox"].get_result(result.id) == result
    assert Task.objects.get().options == TaskOptions(max_attempts=10_000)
    World().work()
    (there,) = policies.results
    assert terms(there.task) == (5, None, 30)
    assert isinstance(there.task.timeout, int)


def test_a_backend_without_such_words_gets_none_and_the_hand_over_goes_on(
    to_dummy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed(note, backend="outbox", max_attempts=1, timeout=0.001).enqueue()
    assert Task.objects.get().options == TaskOptions(max_attempts=10_000, backoff=0)
    World().work()
    assert len(to_dummy.results) == 1


def test_a_call_may_have_a_backoff_of_its_own_there(settings: Any) -> None:
    outbox = BACKENDS["outbox"] | {"OPTIONS": {"TO": "other"}}
    settings.TASKS = BACKENDS | {"outbox": outbox}
    keyed(note, backend="outbox", backoff=[5, 60], max_attempts=3).enqueue()
    World().work()
    assert Task.objects.get().options == TaskOptions(backoff=[5, 60], max_attempts=3)


def test_a_backoff_that_no_row_can_hold_is_refused_for_a_call(policies: Any) -> None:
    with pytest.raises(InvalidTask, match="a row can hold nothing else"):
        keyed(note, backend="outbox", backoff=judge)


def test_so_it_is_for_a_function_whose_calls_become_rows_again(settings: Any) -> None:
    outbox = BACKENDS["outbox"] | {"OPTIONS": {"TO": "other"}}
    settings.TASKS = BACKENDS | {"outbox": outbox}
    with pytest.raises(InvalidTask, match="a row can hold nothing else"):
        declared(functions.plain, backend="outbox", backoff=judge)


def test_immediate_is_what_django_says_it_is() -> None:
    assert isinstance(task_backends["immediate"], ImmediateBackend)
