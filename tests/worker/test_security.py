"""Security: a failed run leaves no password, and a name in a row is not run as code."""

import importlib
import os
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from django.utils import module_loading

from django_tasks.exceptions import TaskTypeError
from django_tasks.handlers import registry
from django_tasks.handlers.base import TaskHandler
from django_tasks.models import Task
from django_tasks.redaction import MASK
from django_tasks.store.finish import Ended, finish
from django_tasks.values import payload_text
from django_tasks.values.outcomes import Done
from django_tasks.values.status import Status
from django_tasks.worker import finisher as finisher_module
from django_tasks.worker.claiming import Claiming
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.error_text import ERROR_LENGTH
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.marks import Marks
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import (
    USING,
    Hands,
    added,
    claimed,
    config,
    joined,
    no_terms,
    runner,
    stored,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

PASSWORD = "hunter2xyz"
URL = f"postgres://app:{PASSWORD}@db.example/shop"
SAFE_URL = f"postgres://app:{MASK}@db.example/shop"


# What is stored


def plain(task: Any) -> None:
    raise ConnectionError(f"no answer from {URL}")


def chained(task: Any) -> None:
    try:
        plain(task)
    except ConnectionError as error:
        raise RuntimeError(f"no answer from {URL}") from error


def noted(task: Any) -> None:
    error = ConnectionError(f"no answer from {URL}")
    error.__notes__ = [f"asked {URL}"]
    raise error


def named(task: Any) -> None:
    raise ValueError({"NAME": "shop", "PASSWORD": PASSWORD, "URL": URL})


def key_of_settings(task: Any) -> None:
    raise ValueError(f"{URL}: signature of {PASSWORD} is wrong")


def long(task: Any) -> None:
    raise ValueError(f"{URL} {'x' * ERROR_LENGTH * 3}" * 40 + URL)


def ending(task: Any) -> None:
    raise SystemExit(f"no answer from {URL}")


async def async_plain(task: Any) -> None:
    plain(task)


@pytest.mark.parametrize(
    "handle", [plain, chained, noted, named, key_of_settings, long, ending, async_plain]
)
@pytest.mark.parametrize("attributes", [{}, {"max_attempts": 1}])
def test_the_error_in_a_row_holds_no_password(
    handle: Callable[..., Any],
    attributes: dict[str, Any],
    register: Register,
    event_loop_thread: EventLoop,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.SECRET_KEY = PASSWORD
    register(handle, **attributes)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    ended = runner(membership, event_loop_thread)(claim)
    finish([ended], datetime.now(timezone.utc), using=USING)
    error = stored().last_error
    assert SAFE_URL in error
    assert "hunter" not in error
    assert len(error) <= ERROR_LENGTH
    # Without the tracebacks, which are the project's logging's to write.
    assert not any("hunter" in record.getMessage() for record in caplog.records)


def test_the_error_of_an_atomic_run_holds_no_password(register: Register) -> None:
    register(plain, atomic=True)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    ended = runner(membership)(claim)
    assert SAFE_URL in getattr(ended.outcome, "error", "")
    assert "hunter" not in str(ended.outcome)


def test_the_error_of_a_defect_of_ours_holds_no_password(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(lambda task: None)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    run = runner(membership)
    monkeypatch.setattr(run.runner, "tried", plain)
    assert SAFE_URL in getattr(run(claim).outcome, "error", "")


def test_an_end_that_cannot_be_written_leaves_no_text_of_the_database(
    register: Register, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)

    def refuse_done(ends: list[Ended], *args: Any, **kwargs: Any) -> Any:
        if isinstance(ends[0].outcome, Done):
            raise ValueError(f"no answer from {URL}")
        return finish(ends, *args, **kwargs)

    monkeypatch.setattr(finisher_module, "finish", refuse_done)
    finisher = Finisher(config(), Marks())
    finisher.add([Ended(claim, Done())])
    finisher.write(membership.clock.now(), careful=False)
    assert stored().status == Status.FAILED
    assert "hunter" not in stored().last_error + caplog.text
    assert SAFE_URL in caplog.text


# What a row names

CLASSES_MADE: list[str] = []


class Unregistered(TaskHandler):
    """Importable, and a handler in every respect, but for being registered."""

    biz_code = "unregistered"

    def __init__(self) -> None:
        CLASSES_MADE.append("made")

    def handle(self, task: Any) -> None:
        CLASSES_MADE.append("run")


NAMES = [
    "os.system",
    "os:system",
    "builtins.eval",
    "antigravity",
    "antigravity.webbrowser",
    "unregistered",
    f"{__name__}.Unregistered",
    "__import__('os').system('true')",
    "../../tmp/handler.py",
    "django_tasks.handlers.base.TaskHandler",
]
PAYLOADS: list[Any] = [
    {"__reduce__": ["os.system", ["true"]], "py/object": "os.system"},
    {"$type": "os", "__class__": f"{__name__}.Unregistered"},
    ["cos\nsystem\n(S'true'\ntR.", "!!python/object/apply:os.system ['true']"],
    "gASVIAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpQu",
]


@pytest.fixture
def no_import(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that anything asks the import system for meanwhile."""
    asked: list[str] = []

    def note(name: str, package: str | None = None) -> Any:
        asked.append(name)
        raise AssertionError(f"{name} was imported")

    for module in (registry, module_loading):
        monkeypatch.setattr(module, "import_module", note)
        monkeypatch.setattr(module, "import_string", note)
    monkeypatch.setattr(importlib, "import_module", note)
    monkeypatch.setattr(os, "system", note)
    return asked


def work(repeat: int = 3) -> None:
    """A worker claims, runs and writes whatever it takes for its own."""
    membership, wishes = joined(), config()
    hands = Hands(runner(membership), 50)
    finisher = Finisher(wishes, Marks())
    claiming = Claiming(wishes, membership, hands.executor, finisher, Marks(), no_terms(membership))
    for _ in range(repeat):
        claiming.claim(careful=False)
        hands.work()
        finisher.add(hands.collect())
        finisher.write(membership.clock.now(), careful=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_code_that_names_something_importable_is_neither_claimed_nor_imported(
    name: str, register: Register, no_import: list[str]
) -> None:
    ran: list[str] = []
    register(lambda task: ran.append(task.biz_num), "known")
    before = added("1", name[:50], biz_ext={"handler": name}, queue=name[:50])
    added("2", "known")
    work()
    assert ran == ["2"]
    row = stored("1", name[:50])
    assert (row.status, row.version, row.claimed_by) == (Status.PENDING, before.version, None)
    assert (no_import, CLASSES_MADE) == ([], [])
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("value", PAYLOADS)
def test_a_payload_is_data_whatever_it_looks_like(
    value: Any, register: Register, no_import: list[str]
) -> None:
    seen: list[Any] = []
    register(lambda task: seen.append(task.biz_ext))
    added(biz_ext=value)
    table().update(last_error="os.system")
    work()
    assert seen == [value]
    assert (no_import, CLASSES_MADE) == ([], [])


@pytest.mark.parametrize("text", ["os.system", "trigger os.system", "__import__('antigravity')"])
def test_a_schedule_is_data_whatever_it_looks_like(
    text: str, register: Register, no_import: list[str]
) -> None:
    seen: list[Any] = []
    register(seen.append)
    added()
    table().update(schedule=text)
    work()
    assert not seen
    assert Task.objects.get().status == Status.FAILED
    assert (no_import, CLASSES_MADE) == ([], [])


@pytest.mark.parametrize("value", [b"\x80\x04.", Unregistered, os.system, {1: os}, {object(): 1}])
def test_a_payload_that_only_a_pickle_could_hold_is_refused(value: Any) -> None:
    with pytest.raises(TaskTypeError):
        payload_text.dump(value, 1000)
