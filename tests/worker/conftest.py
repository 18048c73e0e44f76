"""Handlers of one test, and workers that end with it."""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pytest

from django_tasks.handlers import finders, registry
from django_tasks.handlers.base import TaskHandler
from django_tasks.store import connection
from django_tasks.worker import embedded, lanes, poller
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.recurring import Recurring
from tests.waiting import DEADLINE
from tests.worker import parts

Register = Callable[..., TaskHandler]


@pytest.fixture
def register() -> Iterator[Register]:
    """Register ``handle`` functions in a registry that is empty before and as it was after."""
    known, problems = dict(registry._handlers), list(registry._problems)
    registry.forget()

    def add(function: Callable[..., Any], biz_code: str = parts.CODE, **attributes: Any) -> Any:
        handler = parts.handler(function, biz_code, **attributes)
        registry.register_task_handler(handler)
        return handler

    yield add
    registry.forget()
    registry._handlers.update(known)
    registry._problems.extend(problems)


@pytest.fixture(autouse=True)
def _no_finders(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search of another thread goes on beside a test that did not ask for one."""
    monkeypatch.setattr(finders, "_finders", [])


@pytest.fixture(autouse=True)
def _no_thread_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the thread of the test for none of ours afterwards: its transaction is the test's."""
    monkeypatch.setattr(connection._own.facts, "connections", ())


@pytest.fixture(autouse=True)
def _cheap_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each look for lanes see all of them, however slow the machine is."""
    monkeypatch.setattr(lanes, "DEAR_SECONDS", inf)


@pytest.fixture
def event_loop_thread() -> Iterator[EventLoop]:
    """The loop that runs async handlers."""
    loop = EventLoop()
    yield loop
    loop.close()


@pytest.fixture
def embedded_workers() -> Iterator[None]:
    """End, after the test, each worker that ``start`` has started in it."""
    yield
    assert embedded.stop_workers(timeout=DEADLINE)


@pytest.fixture
def in_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's parts share the test's transaction: none may close its connection."""
    monkeypatch.setattr(poller, "keep_connection", lambda *args: None)
    monkeypatch.setattr(Recurring, "_start", Recurring._keep_once)
