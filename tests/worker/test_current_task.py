"""The task that runs here, for the code of a project, and for each line of its log."""

import asyncio
import contextvars
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from django_tasks import signals
from django_tasks.api import current_task
from django_tasks.handlers import companions
from django_tasks.handlers.base import TaskHandler
from django_tasks.logs import TaskFilter
from django_tasks.testing import run_due_tasks
from django_tasks.values.outcomes import Done, Fail, Retry
from django_tasks.worker.coroutines import EventLoop
from tests.waiting import DEADLINE
from tests.worker.conftest import Register
from tests.worker.parts import CODE, added, claimed, joined, runner

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

log = logging.getLogger("shop.orders")


class Seen:
    """The keys that were current, by the place that asked."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}

    def __call__(self, place: str) -> None:
        self.keys[place] = str(current_task())


@pytest.fixture
def seen() -> Seen:
    return Seen()


def run(loop: EventLoop | None = None) -> Any:
    """Run what is due, by the parts of a worker and on this thread."""
    membership = joined()
    one = runner(membership, loop)
    claims = claimed(membership.worker_id, limit=100)
    batch = claims and TaskHandler.batch != _batch_of(claims[0].biz_code)
    ends = one.runner(tuple(claims)) if batch else [one(each) for each in claims]
    assert current_task() is None
    return [end.outcome for end in ends]


def _batch_of(code: str) -> Any:
    from django_tasks.handlers.registry import handler_for

    handler = handler_for(code)
    return None if handler is None else handler.batch


def test_there_is_none_outside_of_a_run() -> None:
    assert current_task() is None


def test_a_handler_has_its_own_object(register: Register, seen: Seen) -> None:
    def handle(task: Any) -> timedelta:
        assert current_task() is task
        copied = threading.Thread(
            target=contextvars.copy_context().run, args=(seen, "a copied context")
        )
        for thread in (copied, threading.Thread(target=seen, args=("another thread",))):
            thread.start()
            thread.join(DEADLINE)
        return timedelta(hours=1)

    register(handle)
    added()
    (outcome,) = run()
    assert not isinstance(outcome, Fail | Retry), outcome
    assert seen.keys == {"a copied context": "job/1", "another thread": "None"}


def test_so_has_the_run_for_the_last_of_several_times(register: Register) -> None:
    same: list[bool] = []
    register(lambda task: same.append(current_task() is task), schedule="every 5 min")
    added(schedule="every 5 min")
    run()
    assert same == [True]


def test_a_coroutine_has_it_wherever_it_goes(
    register: Register, seen: Seen, event_loop_thread: EventLoop
) -> None:
    async def handle(task: Any) -> None:
        seen("the coroutine")
        await asyncio.to_thread(seen, "to_thread")
        await sync_to_async(seen)("sync_to_async")
        await asyncio.create_task(other())
        await asyncio.sleep(0)
        seen("later")

    async def other() -> None:
        seen("a task of asyncio")

    for timeout in (None, DEADLINE):
        seen.keys.clear()
        register(handle, biz_code=f"code{timeout}", timeout=timeout)
        added(biz_code=f"code{timeout}")
        membership = joined()
        (claim,) = claimed(membership.worker_id, f"code{timeout}")
        end = runner(membership, event_loop_thread)(claim)
        assert end.outcome == Done()
        assert set(seen.keys.values()) == {f"code{timeout}/1"}
        assert len(seen.keys) == 5


def test_hooks_signals_and_a_backoff_have_it(register: Register, seen: Seen) -> None:
    class Backoff:
        def delay(self, attempt: int) -> float:
            seen("backoff")
            return 1.0

    def fail(task: Any) -> None:
        raise ValueError("no")

    def receive(sender: Any, signal: Any, **_: Any) -> None:
        seen("signal")

    register(fail, backoff=Backoff())
    register(fail, biz_code="other", max_attempts=1, on_failure=lambda task, exc: seen("hook"))
    added()
    added(biz_code="other")
    signals.task_retried.connect(receive)
    try:
        membership = joined()
        for code in (CODE, "other"):
            runner(membership)(claimed(membership.worker_id, code)[0])
    finally:
        signals.task_retried.disconnect(receive)
    assert seen.keys == {"backoff": "job/1", "signal": "job/1", "hook": "other/1"}


def test_what_an_atomic_run_leaves_for_its_commit_has_it(handlers: Any, seen: Seen) -> None:
    class Atomic(TaskHandler):
        biz_code = CODE
        atomic = True

        def handle(self, task: Any) -> None:
            seen("handler")
            transaction.on_commit(lambda: seen("commit"))

    handlers(Atomic)
    added()
    (ran,) = run_due_tasks()
    assert ran.outcome == "done"
    assert seen.keys["handler"] == "job/1"


def test_so_has_a_run_in_place(handlers: Any, seen: Seen) -> None:
    class Job(TaskHandler):
        biz_code = CODE

        async def handle(self, task: Any) -> None:
            seen("coroutine")

    handlers(Job)
    added()
    run_due_tasks()
    assert seen.keys == {"coroutine": "job/1"}
    assert current_task() is None


def test_on_stuck_has_it_in_its_own_thread(register: Register, seen: Seen) -> None:
    told = threading.Event()

    def on_stuck(task: Any, seconds: float) -> None:
        assert current_task() is task
        seen("on_stuck")
        told.set()

    def handle(task: Any) -> None:
        assert told.wait(DEADLINE)

    register(handle, timeout=0.01, interrupt=False, on_stuck=on_stuck)
    added()
    run()
    assert seen.keys == {"on_stuck": "job/1"}


# Batches


class Batch(TaskHandler):
    biz_code = CODE
    batch = 10
    max_attempts = 1

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def handle_batch(self, tasks: list[Any]) -> Any:
        self._seen(f"handle_batch {len(tasks)}")
        log.warning("%d at once", len(tasks))
        return {task: ValueError("no") for task in tasks if task.biz_num == "2"}

    def on_failure(self, task: Any, exc: BaseException) -> None:
        self._seen("hook")


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """The records of a handler that has the filter, from a logger of the project and from ours."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[assignment, method-assign]
    handler.addFilter(TaskFilter())
    logging.getLogger().addHandler(handler)
    yield found
    logging.getLogger().removeHandler(handler)


def test_a_batch_is_no_task_but_the_end_of_each_is(
    handlers: Any, seen: Seen, records: list[logging.LogRecord]
) -> None:
    handlers(Batch(seen))
    for number in ("1", "2", "3"):
        added(number)
    run()
    assert seen.keys == {"handle_batch 3": "None", "hook": "job/2"}
    (line,) = [record for record in records if record.name == "shop.orders"]
    assert (facts(line)["task"], facts(line)["batch"]) == ("job (3 tasks)", 3)
    assert (facts(line)["biz_num"], facts(line)["task_id"]) == ("", None)


def test_a_batch_of_one_has_its_key_in_the_log(
    handlers: Any, seen: Seen, records: list[logging.LogRecord]
) -> None:
    handlers(Batch(seen))
    added()
    run()
    assert seen.keys == {"handle_batch 1": "None"}
    (line,) = [record for record in records if record.name == "shop.orders"]
    assert (facts(line)["task"], facts(line)["batch"]) == ("job/1", 1)


# The filter


def facts(record: logging.LogRecord) -> dict[str, Any]:
    return vars(record)


NAMES = (
    "task",
    "biz_code",
    "biz_num",
    "queue",
    "database",
    "worker",
    "task_id",
    "attempt",
    "batch",
)


def test_a_line_of_the_project_has_the_task(
    register: Register, records: list[logging.LogRecord]
) -> None:
    register(lambda task: log.warning("shipped %s", 42))
    task = added()
    log.warning("before")
    run()
    log.warning("after")
    before, during, after = (record for record in records if record.name == "shop.orders")
    assert {name: facts(during)[name] for name in NAMES[:5]} == {
        "task": "job/1",
        "biz_code": "job",
        "biz_num": "1",
        "queue": "default",
        "database": "default",
    }
    assert facts(during)["worker"]
    assert (facts(during)["task_id"], facts(during)["attempt"]) == (task.pk, 1)
    for outside in (before, after):
        assert [facts(outside)[name] for name in NAMES] == [""] * 6 + [None] * 3
        assert logging.Formatter("[%(task)s] %(message)s").format(outside).startswith("[] ")
    assert logging.Formatter("[%(task)s] %(message)s").format(during) == "[job/1] shipped 42"


def test_a_line_about_another_task_is_not_mixed_with_the_one_that_runs(
    register: Register, records: list[logging.LogRecord]
) -> None:
    register(lambda task: log.warning("see", extra={"biz_code": "other"}))
    added()
    run()
    (line,) = [record for record in records if record.name == "shop.orders"]
    assert (facts(line)["biz_code"], facts(line)["biz_num"], facts(line)["task"]) == (
        "other",
        "",
        "",
    )


def test_the_filter_is_made_before_apps_are_loaded() -> None:
    """As a project's settings name it."""
    program = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django_tasks"],
    LOGGING={
        "version": 1,
        "filters": {"task": {"()": "django_tasks.logs.TaskFilter"}},
        "formatters": {"line": {"format": "[%(task)s] %(message)s"}},
        "handlers": {
            "out": {"class": "logging.StreamHandler", "filters": ["task"], "formatter": "line"}
        },
        "root": {"handlers": ["out"]},
    },
)
django.setup()
import logging
logging.getLogger("shop").warning("open")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE,
    )
    assert done.stderr == "[] open\n"


# Companions


class Companion:
    """Goes along, and may fail."""

    def __init__(self, fails: str = "") -> None:
        self.notes: list[str] = []
        self._fails = fails

    def around(self, tasks: Any) -> "Companion":
        self._note("around")
        return self

    def __enter__(self) -> None:
        self._note("enter")

    def __exit__(self, *_: Any) -> None:
        self._note("exit")

    def failed(self, task: Any, error: BaseException, *, is_final: bool) -> None:
        self._note(f"failed {task} {is_final}")

    def leave(self) -> None:
        self._note("leave")

    def _note(self, what: str) -> None:
        self.notes.append(what)
        if what == self._fails:
            raise SystemExit(what)


@pytest.fixture
def accompany() -> Iterator[Callable[..., Companion]]:
    def add(fails: str = "") -> Companion:
        companion = Companion(fails)
        companions.COMPANIONS.append(companion)
        return companion

    before = list(companions.COMPANIONS)
    yield add
    companions.COMPANIONS[:] = before


@pytest.mark.parametrize("fails", ["", "around", "enter", "exit"])
def test_a_companion_that_fails_harms_no_run(
    register: Register,
    accompany: Callable[..., Companion],
    fails: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = accompany(), accompany(fails)
    register(lambda task: second.notes.append("handle"))
    added()
    assert run() == [Done()]
    assert first.notes == ["around", "enter", "exit"]
    assert "handle" in second.notes
    events = [facts(record).get("event") for record in caplog.records]
    assert events.count("companion_failed") == bool(fails)


def test_a_companion_hears_of_a_failure_before_anybody_else(
    register: Register, accompany: Callable[..., Companion]
) -> None:
    companion, failing = accompany("failed other/1 False"), accompany()

    def fail(task: Any) -> None:
        raise ValueError("no")

    register(fail, on_failure=lambda task, exc: failing.notes.append("on_failure"), max_attempts=1)
    added()
    run()
    assert companion.notes == ["around", "enter", "failed job/1 True", "exit"]
    assert failing.notes == ["around", "enter", "failed job/1 True", "on_failure", "exit"]
    register(fail, biz_code="other")
    added(biz_code="other")
    membership = joined()
    end = runner(membership)(claimed(membership.worker_id, "other")[0])
    assert isinstance(end.outcome, Retry)
    assert "failed other/1 False" in failing.notes


def test_all_take_their_leave(
    accompany: Callable[..., Companion], caplog: pytest.LogCaptureFixture
) -> None:
    accompany("leave")
    other = accompany()
    companions.take_leave()
    assert other.notes == ["leave"]
    assert [facts(record)["event"] for record in caplog.records] == ["companion_failed"]
