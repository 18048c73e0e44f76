"""A result is that of its own call: not of an older one, of another function, or of nobody's."""

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.tasks import TaskResultStatus, default_task_backend, task, task_backends
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.test import override_settings

from django_tasks.api import CancelResult, cancel_task, get_runs
from django_tasks.backend import enqueue_many, options
from django_tasks.client.adding import add_task
from django_tasks.functions import declared, results
from django_tasks.handlers import finders, registry
from django_tasks.handlers.registry import handler_for
from django_tasks.host.clocks import utc_now
from django_tasks.models import Task, TaskRun
from django_tasks.store import clock
from tests.factories import a_run
from tests.functions import functions
from tests.functions.conftest import BACKENDS
from tests.functions.functions import cancel_unpaid, echo, note, third_time
from tests.functions.test_enqueueing import keyed
from tests.functions.test_working import ECHO, after, die
from tests.worker.parts import ahead, claimed, worker_row
from tests.worker.test_history import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL
HOUR = timedelta(hours=1)


def keeping(monkeypatch: pytest.MonkeyPatch, function: Any, kept: str) -> None:
    """Have the history of a function keep these of its runs."""
    function.using()  # its handler is made again in each test
    monkeypatch.setitem(vars(handler_for(function.biz_code)), "history", kept)


# A history of problems


def test_of_a_call_that_failed_before_it_went_well_the_good_end_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = third_time.enqueue()
    keeping(monkeypatch, third_time, "problems")
    after(result, times=3)
    assert (result.status, result.attempts, len(result.errors)) == (SUCCESSFUL, 3, 2)


def test_so_it_is_of_a_call_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    result = keyed(echo, key="1").enqueue("first")
    keeping(monkeypatch, echo, "problems")
    assert after(result).return_value == "first"


def test_a_run_that_was_to_be_followed_by_another_is_no_end() -> None:
    result = keyed(third_time, backoff=60).enqueue()
    World().work()
    Task._base_manager.all()._raw_delete("default")  # its good end has left no line
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


# Cancelled where the function is not known


def test_a_call_is_cancelled_where_its_function_is_not_imported() -> None:
    first = after(keyed(cancel_unpaid, key="1").enqueue("first"))
    assert first.return_value == "cancelled first"
    second = keyed(cancel_unpaid, key="1", run_after=HOUR).enqueue("second")
    handler = registry._handlers.pop("cancel_unpaid")
    try:
        assert cancel_task("cancel_unpaid", "1") is CancelResult.CANCELLED
    finally:
        registry._handlers["cancel_unpaid"] = handler
    second.refresh()
    assert (second.status, second.args, second.errors) == (FAILED, ["second"], [])


def test_a_call_whose_results_nobody_wants_leaves_nothing_there_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeping(monkeypatch, echo, "none")
    result = keyed(echo, run_after=HOUR).enqueue(1)
    handler = registry._handlers.pop(ECHO)
    try:
        assert cancel_task(*result.id.split(":"))
    finally:
        registry._handlers[ECHO] = handler
    assert not TaskRun.objects.exists()


@override_settings(DJANGO_TASKS={"HISTORY": "all"})
def test_a_task_that_was_no_call_and_was_cancelled_belongs_to_no_call() -> None:
    first = after(keyed(cancel_unpaid, key="1").enqueue("first"))
    a_run(biz_num="1", biz_code="cancel_unpaid", outcome="cancelled")
    first.refresh()
    assert (first.status, first.return_value) == (SUCCESSFUL, "cancelled first")


# A run that was lost


def test_a_run_that_is_told_to_be_lost_later_takes_no_result_back() -> None:
    result = after(keyed(echo, key="1").enqueue(42))
    detail = TaskRun.objects.get().detail
    a_run(biz_num="1", biz_code=ECHO, outcome="lost", started=utc_now(), detail=detail)
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, 42, 2)


# A key that is enqueued again while it runs


def test_a_run_that_began_before_is_none_of_the_new_call() -> None:
    keyed(echo, key="1").enqueue("old")
    (claim,) = claimed(worker_row().id, ECHO)
    # A second later: a client's look at the clock may lag behind a claim's by a round trip.
    with clock.replaced(lambda using: ahead(1)):
        new = keyed(echo, key="1", run_after=HOUR).enqueue("new")
    new.refresh()
    assert (new.status, new.attempts, new.worker_ids) == (READY, 0, [])
    die(claim, attempts=5)
    new.refresh()
    assert (new.status, new.attempts, new.errors) == (READY, 0, [])


# Functions with a schedule


def test_each_time_of_a_schedule_has_attempts_of_its_own(
    monkeypatch: pytest.MonkeyPatch, handlers: Any
) -> None:
    seen: list[Any] = []

    def at_times(context: Any) -> None:
        seen.append((context.attempt, len(context.task_result.errors)))
        if context.attempt < 2:
            raise ValueError("oh")

    at_times.__qualname__ = "at_times"
    made = task(takes_context=True)(
        options(schedule="every hour", max_attempts=3, backoff=0)(at_times)
    )
    world = World()
    world.work()
    for _ in range(3):
        Task._base_manager.update(when=Task.objects.get().create_time, scheduled_time=None)
        world.work()
        world.work()
    assert made is not None
    assert set(seen) == {(1, 0), (2, 1)}


def test_the_number_of_a_schedule_is_no_call(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0), pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result("tests.functions.functions.hourly:@schedule")


def test_a_look_at_many_runs_is_bounded(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(results, "AT_ONCE", 4)
    monkeypatch.setattr(results, "MOST_LINES", 10)
    result = keyed(third_time, backoff=60).enqueue()
    detail = Task.objects.get().biz_ext
    for _ in range(30):
        number = result.id.split(":")[1]
        a_run(biz_num=number, biz_code=third_time.module_path, detail=detail, error="oh")
    with django_assert_max_num_queries(6):
        found = default_task_backend.get_result(result.id)
    assert len(found.errors) == 10


# Payloads


def test_a_neighbour_of_another_release_may_know_fewer_words() -> None:
    result = echo.enqueue(1)
    words = Task.objects.get().biz_ext
    del words["key"], words["results"]
    Task._base_manager.update(biz_ext=words)
    assert after(result).return_value == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"call": "x", "life": "y"}, "is a call that this release cannot read"),
        ("a text", "must be arguments: a list, a mapping or None"),
        (5, "must be arguments"),
    ],
)
def test_a_payload_that_is_no_arguments_fails_and_calls_nothing(
    words: Any, sentence: str, calls: list[Any]
) -> None:
    add_task("tests.functions.functions.note", "1", biz_ext=words)
    World().work()
    assert calls == []
    assert sentence in Task.objects.get().last_error


class Odd(json.JSONDecoder):
    """A decoder that makes objects of mappings."""

    def __init__(self, **manners: Any) -> None:
        super().__init__(object_hook=lambda facts: SimpleNamespace(**facts))


def test_a_decoder_of_the_project_changes_nothing(calls: list[Any]) -> None:
    with override_settings(DJANGO_TASKS={"PAYLOAD_DECODER": f"{__name__}.Odd"}):
        result = keyed(echo, key="1").enqueue({"a": 1})
        assert keyed(echo, key="1", on_conflict="keep").enqueue(2).args == [{"a": 1}]
        assert after(result).return_value == {"a": 1}
        (run,) = get_runs(ECHO, "1")
        assert run.return_value == {"a": 1}


def test_a_key_that_a_task_of_another_kind_has_is_no_call() -> None:
    add_task(ECHO, "1", biz_ext=[1], when=HOUR)
    with pytest.raises(ValueError, match="is no call of this function"):
        keyed(echo, key="1", on_conflict="keep").enqueue(2)


def test_a_call_that_ends_while_it_is_to_be_kept_is_stored_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keyed(echo, key="1").enqueue("first")
    intact = results.result_of

    def ended(result_id: object, *, using: str) -> Any:
        Task._base_manager.all()._raw_delete("default")
        monkeypatch.setattr(results, "result_of", intact)
        raise TaskResultDoesNotExist(str(result_id))

    monkeypatch.setattr(results, "result_of", ended)
    assert keyed(echo, key="1", on_conflict="keep").enqueue("second").args == ["second"]


# Functions that share a code, or have moved


def test_a_call_of_another_function_with_the_code_is_not_run(calls: list[Any]) -> None:
    echo.using()  # it is there
    note.enqueue(1)
    row = Task.objects.get()
    Task._base_manager.update(biz_ext=row.biz_ext | {"call": ECHO})
    World().work()
    assert calls == []
    assert "This is a call of tests.functions.functions.echo" in Task.objects.get().last_error


def test_a_function_that_has_moved_runs_its_older_calls(calls: list[Any]) -> None:
    result = note.enqueue(1)
    row = Task.objects.get()
    Task._base_manager.update(biz_ext=row.biz_ext | {"call": "testproject.shop.old.note"})
    found = default_task_backend.get_result(result.id)
    assert found.task.func is note.func
    World().work()
    assert calls == [((1,), {})]


# Backends


def test_a_function_of_another_backend_runs_here_if_its_call_says_so(
    calls: list[Any], handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = task(backend="immediate")(functions.plain)
    monkeypatch.setattr(functions, "plain", plain)
    plain.using(backend="other").enqueue()
    registry.forget()
    declared.forget()
    assert finders.find("tests.functions.functions.plain", using="default") is False  # not allowed
    monkeypatch.setattr("django_tasks.functions.finding.is_allowed", lambda module: True)
    assert finders.find("tests.functions.functions.plain", using="default")


def test_an_outbox_does_not_agree_to_less_than_it_promises(settings: Any) -> None:
    outbox = BACKENDS["outbox"] | {"OPTIONS": {"TO": "dummy", "ATOMIC": True}}
    settings.TASKS = BACKENDS | {"outbox": outbox}
    with pytest.raises(InvalidTask, match="does not agree with this one about ATOMIC"):
        note.using(backend="outbox").enqueue()


def test_the_attempts_of_a_function_are_not_those_of_its_hand_over() -> None:
    third_time.using(backend="outbox").enqueue()
    assert Task.objects.get().options.max_attempts == 10_000


def test_two_outboxes_that_lead_to_each_other_are_said(settings: Any) -> None:
    path = "django_tasks.backend.OutboxBackend"
    settings.TASKS = {
        "one": {"BACKEND": path, "OPTIONS": {"TO": "two"}},
        "two": {"BACKEND": path, "OPTIONS": {"TO": "one"}},
        "default": BACKENDS["default"],
    }
    for alias in ("one", "two"):
        (problem,) = task_backends[alias].check()
        assert "TO leads back to this backend" in problem.msg
    with pytest.raises(InvalidTask, match="TO leads back"):
        note.using(backend="one")


def test_settings_that_change_count_for_functions_that_are_known(settings: Any) -> None:
    note.enqueue()
    settings.TASKS = BACKENDS | {
        "default": BACKENDS["default"] | {"OPTIONS": {"MAX_ATTEMPTS": 4, "RESULTS": "none"}}
    }
    note.enqueue()
    handler: Any = handler_for("tests.functions.functions.note")
    assert (handler.max_attempts, handler.history) == (4, "none")
    settings.TASKS = BACKENDS
    note.enqueue()
    handler = handler_for("tests.functions.functions.note")
    assert handler.max_attempts == 1


def test_the_target_of_a_handed_call_that_is_gone_is_said(settings: Any) -> None:
    result = note.using(backend="outbox").enqueue()
    World().work()
    settings.TASKS = {alias: BACKENDS[alias] for alias in BACKENDS if alias != "immediate"}
    with pytest.raises(TaskResultDoesNotExist, match="was handed over"):
        default_task_backend.get_result(result.id)


@pytest.mark.parametrize("number", ["\0", "\ud800", "x" * 101, " x", ""])
def test_an_id_from_outside_that_nobody_can_have_is_not_there(number: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(f"cancel_unpaid:{number}")


# Words


def test_a_task_without_a_key_cannot_be_cancelled_by_it() -> None:
    with pytest.raises(InvalidTask, match="key is missing"):
        keyed(note).cancel()


def test_a_time_that_is_too_far_away_is_refused() -> None:
    with pytest.raises(InvalidTask, match="run_after is out of the range"):
        keyed(note, run_after=timedelta(days=999_999_999))


@pytest.mark.parametrize("calls_", [[5], [(1,)], [([1], {}, 2)], [(5, {})]])
def test_calls_that_are_no_pairs_are_refused(calls_: Any) -> None:
    with pytest.raises(TypeError, match="item 0: calls must be pairs"):
        enqueue_many(note, calls_)
