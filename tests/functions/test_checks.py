"""System checks of the setting TASKS; those of its OPTIONS are beside the tests of options."""

import subprocess
import sys
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.tasks import task_backends

from django_tasks.api import HandOver
from django_tasks.handover.checks import check_hand_over
from tests import test_second_database
from tests.functions.conftest import BACKENDS
from tests.functions.functions import note
from tests.test_second_database import SECOND

second = test_second_database.second

OURS, OUTBOX = (f"django_tasks.backend.{kind}Backend" for kind in ("Database", "Outbox"))


def found(alias: str) -> list[CheckMessage]:
    return list(task_backends[alias].check())


def ids(alias: str) -> list[str]:
    return [str(each.id).removeprefix("django_tasks.") for each in found(alias)]


# The database of the calls


@pytest.fixture
def away(second: str, settings: Any) -> str:
    """A backend whose calls are on a database that the routers do not name."""
    own = {"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"DATABASE": second}}
    settings.TASKS = BACKENDS | {"away": own}
    return second


def test_w012_says_that_workers_do_not_look_there_by_themselves(away: str) -> None:
    (warning,) = found("away")
    assert warning.id == "django_tasks.W012"
    assert warning.msg == (
        "TASKS['away'] keeps its calls in the database 'second', and the routers name 'default' "
        "for tasks: a worker that is started without a database does not look there."
    )
    assert warning.hint == (
        "Start workers for it, by starttask --database second; or have a router name it for "
        "django_tasks."
    )


class ToSecond:
    """A router that sends tasks to the second database."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return SECOND if model._meta.app_label == "django_tasks" else None


def test_it_is_silent_if_a_router_names_the_same_one(away: str, settings: Any) -> None:
    settings.DATABASE_ROUTERS = [ToSecond()]
    assert found("away") == []
    assert found("default") == []


# An outbox in one transaction


@pytest.fixture
def outbox(settings: Any) -> Any:
    """Have the outbox lead to a backend of these settings, in one transaction."""

    def lead_to(backend: dict[str, Any], **options: Any) -> None:
        own = {"TO": "there", "ATOMIC": True} | options
        settings.TASKS = BACKENDS | {
            "outbox": {"BACKEND": OUTBOX, "QUEUES": [], "OPTIONS": own},
            "there": backend,
        }

    return lead_to


def test_w010_says_that_an_outbox_promises_more_than_the_other_backend(outbox: Any) -> None:
    outbox(BACKENDS["dummy"])
    (warning,) = found("outbox")
    assert warning.id == "django_tasks.W010"
    assert warning.msg == (
        "TASKS['outbox'] is atomic, and the TASKS backend 'there' is not known to keep its calls "
        "in the database of the tasks: a call may be there although the run has been rolled back."
    )


def test_without_atomic_it_is_silent(outbox: Any) -> None:
    outbox(BACKENDS["dummy"], ATOMIC=False)
    assert found("outbox") == []


def test_before_a_backend_in_the_same_database_it_is_silent(outbox: Any) -> None:
    outbox({"BACKEND": OURS, "QUEUES": []})
    assert found("outbox") == []


def test_before_one_in_another_database_it_speaks(outbox: Any, second: str) -> None:
    outbox({"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"DATABASE": second}})
    assert ids("outbox") == ["W010"]
    outbox({"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"DATABASE": second}}, DATABASE=second)
    assert ids("outbox") == ["W012"]
    outbox({"BACKEND": OURS, "QUEUES": []}, DATABASE=second)
    assert ids("outbox") == ["W010", "W012"]


@pytest.mark.parametrize(("backend", "ids"), [("default", []), ("away", ["django_tasks.W010"])])
def test_a_handler_that_hands_over_is_judged_in_the_same_way(
    backend: str, ids: list[str], away: str, handlers: Any
) -> None:
    attributes = {"biz_code": "cancel", "to": note.using(backend=backend), "atomic": True}
    handlers(type("Cancel", (HandOver,), attributes))
    assert [message.id for message in check_hand_over()] == ids


# What kills a check


PROGRAM = f"""
from django.conf import settings

settings.configure(
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    TASKS={{"default": {{"BACKEND": {OURS!r}}}}},
)
import django

django.setup()
from django.tasks import task_backends

print([str(message) for message in task_backends["default"].check()])
"""


def test_e007_says_that_the_app_is_not_installed() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stderr == ""
    assert "TASKS['default'] needs 'django_tasks' in INSTALLED_APPS." in done.stdout
