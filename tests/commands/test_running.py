"""runtask: one task here, in the foreground."""

import asyncio
import pdb
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_tasks.api import TaskHandler, get_runs, pause_tasks
from django_tasks.exceptions import RetryLater
from django_tasks.models import Task, WorkerRow
from django_tasks.store import clock
from django_tasks.values.status import Status
from django_tasks.worker import foreground
from tests.commands.conftest import Call
from tests.factories import CODE, a_row, rows, table, the_row, there_is

pytestmark = pytest.mark.django_db(transaction=True)

Handle = Callable[[Any], Any]


@pytest.fixture
def handle(handlers: Callable[..., None]) -> Callable[..., None]:
    """Register a handler that does this."""

    def register(does: Handle, **attributes: Any) -> None:
        names = {"biz_code": CODE, "handle": staticmethod(does), "history": "all"} | attributes
        handlers(type("Order", (TaskHandler,), names))

    return register


def soon(**fields: Any) -> Task:
    """A task that is due in an hour."""
    now = clock.now("default")
    times = {"when": now + timedelta(hours=1), "create_time": now, "update_time": now}
    return a_row("42", **(times | fields))


def broken(task: Any) -> None:
    raise ConnectionError("no route")


def test_it_runs_here_and_is_claimed_meanwhile(call: Call, handle: Any) -> None:
    seen: list[Any] = []

    def does(task: Any) -> None:
        row, worker = the_row("42"), WorkerRow.objects.get()
        seen.append((row.status, row.claimed_by == worker.pk, threading.current_thread()))

    handle(does)
    soon()
    said = call("runtask", CODE, "42")
    assert said.code == 0, said.error
    assert said.startswith("order/42: done, after ")
    assert seen == [(Status.RUNNING, True, threading.main_thread())]
    assert not there_is("42")
    assert not WorkerRow.objects.exists()
    (run,) = get_runs(CODE, "42")
    assert run.outcome == "done"


def test_its_row_says_that_it_takes_no_others(call: Call, handle: Any) -> None:
    states: list[str] = []

    def does(task: Any) -> None:
        # Its first heartbeat comes a quarter of a second after it has joined.
        for _ in range(200):
            states.append(WorkerRow.objects.get().state)
            if states[-1] != "running":
                return
            threading.Event().wait(0.05)

    handle(does)
    soon()
    rows(range(3))
    assert call("runtask", CODE, "42").code == 0
    assert states[-1] == foreground.STATE
    assert Task.objects.filter(status=Status.PENDING).count() == 3


def test_what_it_raises_counts_and_is_told(call: Call, handle: Any) -> None:
    handle(broken, max_attempts=3, backoff=60)
    soon()
    said = call("runtask", CODE, "42")
    assert (said.code, said.error) == (1, "It has not ended well.")
    lines = said.splitlines()
    assert lines[0].startswith("order/42: retried, after ")
    assert lines[1] == "ConnectionError: no route"
    assert lines[2].startswith("It runs again at ")
    row = the_row("42")
    assert (row.status, row.attempts) == (Status.PENDING, 1)
    assert row.exception.endswith("ConnectionError")


def test_a_failed_one_begins_again(call: Call, handle: Any) -> None:
    handle(broken, max_attempts=3, backoff=60)
    soon(status=Status.FAILED, attempts=3)
    call("runtask", CODE, "42")
    row = the_row("42")
    assert (row.status, row.attempts) == (Status.PENDING, 1)


def test_the_last_attempt_fails(call: Call, handle: Any) -> None:
    handle(broken, max_attempts=1)
    soon()
    read = call("runtask", CODE, "42", "--format", "json").json
    assert (read["outcome"], read["status"]) == ("failed", "failed")
    assert read["error"] == "ConnectionError: no route"
    assert the_row("42").status == Status.FAILED


def test_the_debugger_sees_the_frames_of_the_handler(
    call: Call, handle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def look(trace: Any) -> None:
        while trace.tb_next:
            trace = trace.tb_next
        seen.append((trace.tb_frame.f_code.co_name, the_row("42").status))

    monkeypatch.setattr(pdb, "post_mortem", look)
    handle(broken, max_attempts=1, timeout=0.2)
    soon()
    assert call("runtask", CODE, "42", "--pdb").code == 1
    assert seen == [("broken", Status.FAILED)]


def test_with_the_debugger_nothing_times_out(call: Call, handle: Any) -> None:
    def slow(task: Any) -> None:
        threading.Event().wait(0.3)

    handle(slow, timeout=0.05, max_attempts=1)
    soon()
    assert call("runtask", CODE, "42", "--pdb").code == 0


def test_without_it_a_timeout_is_one(call: Call, handle: Any) -> None:
    def slow(task: Any) -> None:
        for _ in range(1000):
            threading.Event().wait(0.01)

    handle(slow, timeout=0.05, max_attempts=1)
    soon()
    said = call("runtask", CODE, "42")
    assert (said.code, "TaskTimeout" in said) == (1, True)


def test_ctrl_c_ends_the_run_as_failed(call: Call, handle: Any) -> None:
    def stopped(task: Any) -> None:
        raise KeyboardInterrupt

    handle(stopped, max_attempts=1)
    soon()
    assert call("runtask", CODE, "42").code == 1
    assert the_row("42").status == Status.FAILED
    assert not WorkerRow.objects.exists()


def test_a_coroutine(call: Call, handle: Any) -> None:
    async def does(task: Any) -> timedelta:
        await asyncio.sleep(0)
        return timedelta(hours=2)

    handle(does)
    soon()
    said = call("runtask", CODE, "42")
    assert said.splitlines()[0].startswith("order/42: rescheduled")
    assert the_row("42").runs == 1


def test_an_atomic_one(call: Call, handle: Any) -> None:
    handle(broken, atomic=True, max_attempts=2, backoff=60)
    soon()
    assert call("runtask", CODE, "42").code == 1
    handle_row = the_row("42")
    assert (handle_row.status, handle_row.attempts) == (Status.PENDING, 1)


def test_it_may_put_itself_off(call: Call, handle: Any) -> None:
    def later(task: Any) -> None:
        raise RetryLater(timedelta(seconds=60))

    handle(later)
    soon()
    assert call("runtask", CODE, "42").splitlines()[0].startswith("order/42: ")
    assert the_row("42").status == Status.PENDING


def test_a_recurring_one_waits_for_its_next_time(call: Call, handle: Any) -> None:
    handle(lambda task: None)
    soon(schedule="every 1d")
    before = the_row("42")
    assert call("runtask", CODE, "42").code == 0
    row = the_row("42")
    # It ran once more before it: its beat stays.
    assert (row.status, row.when, row.runs) == (Status.PENDING, before.when, 1)


def test_a_person_may_run_what_is_paused_with_others(call: Call, handle: Any) -> None:
    handle(lambda task: None)
    soon()
    pause_tasks(biz_code=CODE)
    assert call("runtask", CODE, "42").code == 0


def test_a_limit_holds(call: Call, handle: Any) -> None:
    handle(lambda task: None, max_running=1)
    soon()
    a_row("other", status=Status.RUNNING, claimed_by=10**6)
    said = call("runtask", CODE, "42")
    assert (said.code, "limit" in said.error) == (1, True)
    table(biz_num="other").delete()
    assert call("runtask", CODE, "42").code == 0


@pytest.mark.parametrize("status", [Status.RUNNING, Status.PAUSED, Status.CANCELLING])
def test_one_that_cannot_be_had(status: Status, call: Call, handle: Any) -> None:
    handle(lambda task: None)
    soon(status=status)
    said = call("runtask", CODE, "42")
    assert said.code == 1
    assert said.error.startswith("order/42: ")
    assert the_row("42").status == status


def test_somebody_else_is_quicker(call: Call, handle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    handle(lambda task: None)
    soon()
    claim_row = vars(foreground)["claim_row"]

    def late(*args: Any, **kwargs: Any) -> Any:
        table(biz_num="42").update(status=Status.RUNNING, claimed_by=10**6)
        return claim_row(*args, **kwargs)

    monkeypatch.setattr(foreground, "claim_row", late)
    said = call("runtask", CODE, "42")
    assert (said.code, "quicker" in said.error) == (1, True)
    assert not WorkerRow.objects.exists()


def test_one_that_is_not_there_or_has_no_handler(call: Call) -> None:
    assert "no such task" in call("runtask", CODE, "42").error
    soon()
    assert "no handler" in call("runtask", CODE, "42").error


def test_a_sticky_one_runs_in_its_worker_alone(call: Call, handle: Any) -> None:
    handle(lambda task: None, sticky=True, schedule="every 1d")
    soon()
    assert "sticky" in call("runtask", CODE, "42").error


def test_it_refuses_to_run_inside_a_transaction(call: Call) -> None:
    with transaction.atomic():
        assert "inside a transaction" in call("runtask", CODE, "42").error
