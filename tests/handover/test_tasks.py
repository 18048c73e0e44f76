"""Functions of ``django.tasks``: a backend in the same database gets each call exactly once."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin import site
from django.core.checks import CheckMessage
from django.db import connection
from django.tasks import task_backends
from django.test import modify_settings, override_settings

from django_tasks.api import HandlerError, HandOver
from django_tasks.handover.checks import check_hand_over
from django_tasks.handover.tasks import enqueue, task_at
from django_tasks.store.finish import finish
from django_tasks.values.outcomes import Done, Outcome, Retry, Settled
from tests.factories import table
from tests.handover.parts import a_run
from tests.worker.parts import USING, added, ago, claimed, joined, row, runner

Handlers = Callable[..., None]

TASKS = {
    "default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
    "database": {"BACKEND": "django_tasks_db.DatabaseBackend"},
}


def calls() -> list[Any]:
    """The calls at the default backend, which runs none of them."""
    backend: Any = task_backends["default"]
    found: list[Any] = backend.results
    return found


@pytest.fixture(autouse=True)
def functions() -> Iterator[Any]:
    """Functions of two backends, one of which keeps its calls in the database of the tests."""
    pages = dict(site._registry)
    with (
        modify_settings(INSTALLED_APPS={"append": "django_tasks_db"}),
        override_settings(TASKS=TASKS),
    ):
        module = importlib.import_module("tests.handover.functions")
        calls().clear()
        yield module
    # The other app has registered its pages, and is not installed any more.
    site._registry.clear()
    site._registry.update(pages)


class ToTasks(HandOver):
    biz_code = "cancel"
    to = "tests.handover.functions.cancel"


# Calls


def test_a_due_task_is_a_call_with_its_payload_as_arguments() -> None:
    ToTasks().handle(a_run(biz_ext='{"number": 42}'))
    (result,) = calls()
    assert (result.task.name, result.args, result.kwargs) == ("cancel", [], {"number": 42})


def test_a_task_may_be_given_itself_with_terms_of_its_own(functions: Any) -> None:
    class Urgent(ToTasks):
        to = functions.cancel.using(priority=9)

    Urgent().handle(a_run(biz_ext="[42]"))
    (result,) = calls()
    assert (result.args, result.task.priority) == ([42], 9)


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ("tests.handover.functions.no_task", "is no task: write @task above the function"),
        ("tests.handover.functions.nothing", "has no 'nothing'"),
        ("tests.nowhere.cancel", "cannot be imported"),
        ("cancel", "a dotted path is wanted"),
        (len, "is no task"),
    ],
)
def test_what_is_no_task_is_refused(to: Any, sentence: str) -> None:
    with pytest.raises(HandlerError, match=sentence):
        task_at(to)


def test_a_task_that_its_backend_refuses_is_refused(functions: Any) -> None:
    narrow = {"default": TASKS["default"] | {"QUEUES": ["mail"]}}
    with (
        override_settings(TASKS=narrow),
        pytest.raises(HandlerError, match=r"tests\.handover\.functions\.cancel: Queue 'default'"),
    ):
        enqueue(functions.cancel, (), {})


# In the same database


@pytest.fixture
def table_of_calls(transactional_db: None) -> Iterator[Any]:
    """The model of the calls, with its table."""
    from django_tasks_db.models import DBTaskResult

    with connection.schema_editor() as editor:
        editor.create_model(DBTaskResult)
    yield DBTaskResult
    with connection.schema_editor() as editor:
        editor.delete_model(DBTaskResult)


def run() -> Outcome:
    """The outcome of a run of the task, written as the poller would."""
    membership = joined()
    table(biz_code="cancel").update(when=ago())
    (claim,) = claimed(membership.worker_id, "cancel")
    end = runner(membership)(claim)
    if not isinstance(end.outcome, Settled):
        finish([end], ago(0), using=USING)
    return end.outcome


class RaisesAfterwards(HandOver):
    biz_code = "cancel"
    to = "tests.handover.functions.cancel_in_database"
    raises = True

    def handle(self, task: Any) -> None:
        super().handle(task)
        if type(self).raises:
            raise ConnectionError


@pytest.mark.parametrize(("atomic", "calls"), [(True, 1), (False, 2)])
def test_a_call_in_the_same_database_is_there_once_if_the_run_is_atomic(
    handlers: Handlers, table_of_calls: Any, atomic: bool, calls: int
) -> None:
    handler: Any = type("Cancel", (RaisesAfterwards,), {"atomic": atomic})
    handlers(handler)
    added("42", "cancel", biz_ext=[42])
    assert isinstance(run(), Retry)
    handler.raises = False
    assert isinstance(run(), Settled if atomic else Done)
    assert table_of_calls.objects.count() == calls
    assert row("42", "cancel") is None


# Checks


def heard(handlers: Handlers, **attributes: Any) -> list[CheckMessage]:
    handlers(type("Cancel", (HandOver,), {"biz_code": "cancel", **attributes}))
    return check_hand_over()


@pytest.mark.parametrize(
    ("name", "atomic", "ids"),
    [
        ("cancel", False, []),
        ("cancel", True, ["django_tasks.W010"]),
        ("cancel_in_database", False, []),
        ("cancel_in_database", True, []),
        ("no_task", False, ["django_tasks.E009"]),
        ("nothing", False, ["django_tasks.E009"]),
    ],
)
def test_a_check_knows_the_backends_that_write_in_the_tasks_database(
    handlers: Handlers, name: str, atomic: bool, ids: list[str]
) -> None:
    found = heard(handlers, to=f"tests.handover.functions.{name}", atomic=atomic)
    assert [message.id for message in found] == ids


class Elsewhere:
    """A router that sends the calls of another engine to another database."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "calls" if model._meta.app_label == "django_tasks_database" else None


def test_w010_speaks_if_the_calls_are_in_another_database(handlers: Handlers) -> None:
    with override_settings(DATABASE_ROUTERS=[Elsewhere()]):
        (warning,) = heard(handlers, to="tests.handover.functions.cancel_in_database", atomic=True)
    assert warning.id == "django_tasks.W010"
    assert "the TASKS backend 'database' is not known" in warning.msg


@pytest.mark.parametrize(
    ("routers", "ids"), [([], []), ([Elsewhere()], ["django_tasks.W010"])], ids=["same", "other"]
)
def test_w010_judges_an_outbox_in_the_same_way(routers: list[Any], ids: list[str]) -> None:
    options = {"TO": "database", "ATOMIC": True}
    outbox = {"BACKEND": "django_tasks.backend.OutboxBackend", "OPTIONS": options}
    with override_settings(TASKS=TASKS | {"outbox": outbox}, DATABASE_ROUTERS=routers):
        assert [message.id for message in task_backends["outbox"].check()] == ids


def test_e010_speaks_of_a_backend_that_the_settings_do_not_have(
    handlers: Handlers, functions: Any
) -> None:
    with override_settings(TASKS={"default": TASKS["default"]}):
        (error,) = heard(handlers, to="tests.handover.functions.cancel_in_database")
    assert "database" in error.msg
