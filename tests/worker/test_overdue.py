"""A handler is told that a run of it takes longer than its timeout."""

import threading
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks import signals
from django_tasks.clock import ClockReading, Tick
from django_tasks.handlers.base import TaskHandler, task_handler
from django_tasks.handlers.running_task import RunningTask
from django_tasks.worker import overdue
from django_tasks.worker.executor import Running
from django_tasks.worker.fresh_context import FreshContext
from tests.factories import NOW, a_claim_of
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import StillTicks

NOW_TICK = 107.0


def runs_of(handler: TaskHandler, count: int = 1) -> list[Any]:
    """Runs of one call, which began seven seconds before NOW_TICK."""
    started = Tick(ClockReading(NOW, 100.0), 100.0)
    row: Any = None  # nobody asks it anything
    claims = [a_claim_of(number) for number in range(count)]
    tasks = [RunningTask(claim, "other", started, row) for claim in claims]
    return [
        SimpleNamespace(claimed=claim, handler=handler, started=started, task=task)
        for claim, task in zip(claims, tasks, strict=True)
    ]


def reporting() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "django_tasks-stuck"]


def over() -> None:
    eventually(lambda: not reporting(), "the thread of the report ends")


def test_the_hook_of_a_class_is_called_in_a_thread_of_its_own() -> None:
    told: SimpleQueue[Any] = SimpleQueue()

    class Slow(TaskHandler):
        def on_stuck(self, task: Any, seconds: float) -> None:
            told.put((task, seconds, threading.current_thread()))

    overdue.report(runs_of(Slow()), NOW_TICK, FreshContext())
    task, seconds, thread = told.get(timeout=DEADLINE)
    assert (str(task), task.using, seconds) == ("job/0", "other", 7.0)
    assert thread is not threading.current_thread()
    assert thread.daemon  # a hook that hangs keeps no process from its end
    over()


def test_so_is_the_hook_of_a_function() -> None:
    told: SimpleQueue[Any] = SimpleQueue()

    @task_handler("slow", on_stuck=lambda task, seconds: told.put((str(task), seconds)))
    def slow(task: Any) -> None: ...

    overdue.report(runs_of(slow, 2), NOW_TICK, FreshContext())
    assert [told.get(timeout=DEADLINE) for _ in range(2)] == [("job/0", 7.0), ("job/1", 7.0)]
    over()


def test_where_nobody_listens_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    @task_handler("slow")
    def slow(task: Any) -> None: ...

    monkeypatch.setattr(overdue, "Thread", None)
    for handler in (slow, TaskHandler()):
        overdue.report(runs_of(handler), NOW_TICK, FreshContext())


def test_a_run_that_takes_just_its_timeout_is_not_overdue(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = StillTicks()
    monkeypatch.setattr(overdue, "ticks", clock)
    monkeypatch.setattr(overdue, "allowance_of", lambda claimed: SimpleNamespace(timeout=7.0))
    watch = overdue.Overdue("default")
    claimed: Any = SimpleNamespace(worker_id=1, id=2, biz_code="nobody's")
    running = [Running((claimed,), clock())]
    clock.now += 7
    watch.warn(running)
    assert caplog.messages == []
    clock.now += 1
    watch.warn(running)
    assert len(caplog.messages) == 1


def test_receivers_are_told_with_the_database() -> None:
    told: SimpleQueue[Any] = SimpleQueue()

    def receive(sender: Any, signal: Any, **facts: Any) -> None:
        told.put((sender, facts))

    signals.task_stuck.connect(receive)
    try:
        overdue.report(runs_of(TaskHandler()), NOW_TICK, FreshContext())
        sender, facts = told.get(timeout=DEADLINE)
        assert (sender, str(facts.pop("task"))) == (TaskHandler, "job/0")
        assert facts == {"seconds": 7.0, "using": "other"}
    finally:
        signals.task_stuck.disconnect(receive)
    over()
