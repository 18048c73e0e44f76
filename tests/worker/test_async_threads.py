"""Each run of an async handler has a thread of its own for what is not async."""

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, async_to_sync, sync_to_async
from django.db.backends.signals import connection_created

from django_tasks.models import Task
from django_tasks.store.connection import close_connections
from django_tasks.worker import coroutines, own_thread
from django_tasks.worker.coroutines import EventLoop
from tests.waiting import DEADLINE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

ours = sync_to_async(threading.current_thread)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    eventually(lambda: set(threading.enumerate()) <= before, "all threads have ended")


@pytest.fixture
def loop(no_thread_is_left: None) -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


@pytest.fixture
def beside(no_thread_is_left: None) -> Iterator[Callable[..., "Future[Any]"]]:
    """Call a function in another thread, as the executor of a worker does."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


@pytest.fixture
def busy(loop: EventLoop, beside: Any) -> Iterator["Future[Any]"]:
    """A run that is in a long call, to the end of the test."""
    begun, over = Event(), Event()

    def call() -> None:
        begun.set()
        assert over.wait(DEADLINE)

    future = beside(loop.run, sync_to_async(call)(), None)
    assert begun.wait(DEADLINE)
    yield future
    assert not future.done()
    over.set()
    future.result(DEADLINE)


async def nothing() -> None:
    await asyncio.sleep(0)


async def counted() -> int:
    return await Task.objects.acount()


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("work", [nothing, counted])
@pytest.mark.parametrize("timeout", [None, DEADLINE])
def test_a_long_call_of_one_run_does_not_hold_up_others(
    loop: EventLoop, beside: Any, work: Callable[[], Any], timeout: float | None
) -> None:
    beside(loop.run, work(), timeout).result(DEADLINE)


@pytest.mark.usefixtures("busy")
def test_a_timeout_is_enforced_while_another_run_is_in_a_long_call(
    loop: EventLoop, beside: Any
) -> None:
    with pytest.raises(TimeoutError):
        beside(loop.run, asyncio.sleep(DEADLINE), 0.05).result(DEADLINE)


def test_a_run_ends_at_its_timeout_although_its_own_call_goes_on(
    loop: EventLoop, beside: Any, opened: list[Any]
) -> None:
    begun, over = Event(), Event()

    def call() -> None:
        Task.objects.count()
        begun.set()
        assert over.wait(DEADLINE)

    try:
        with pytest.raises(TimeoutError):
            beside(loop.run, sync_to_async(call)(), 0.5).result(DEADLINE)
        beside(loop.run, counted(), DEADLINE).result(DEADLINE)
        assert begun.wait(DEADLINE)
        held = [each for each in opened if each.connection is not None]
        assert held, "what is in use stays open"
    finally:
        over.set()
    eventually(lambda: all_closed(opened), "the call has ended, and its connection is closed")


def test_all_calls_of_a_run_are_in_one_thread_and_no_other_run_is(loop: EventLoop) -> None:
    async def work() -> tuple[Any, Any, Any]:
        first = await ours()
        together = await asyncio.gather(ours(), ours())
        return (first, *together)

    runs = [loop.run(work(), timeout) for timeout in (None, DEADLINE)]
    assert [len(set(threads)) for threads in runs] == [1, 1]
    assert runs[0][0] is not runs[1][0]


def test_a_call_back_into_async_code_is_in_the_same_thread(loop: EventLoop) -> None:
    async def again() -> Any:
        return await ours()

    def back() -> Any:
        return async_to_sync(again)()

    async def work() -> tuple[Any, Any]:
        return await ours(), await sync_to_async(back)()

    first, second = loop.run(work(), DEADLINE)
    assert first is second


def test_a_run_without_such_calls_makes_no_thread(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.run(nothing(), None)
    before = set(threading.enumerate())
    started: list[Any] = []
    monkeypatch.setattr(threading.Thread, "start", started.append)
    loop.run(nothing(), None)
    loop.run(nothing(), DEADLINE)
    assert not started
    assert set(threading.enumerate()) == before


def test_asgiref_keeps_nothing_of_runs_that_have_ended(loop: EventLoop) -> None:
    gc.collect()
    before = len(SyncToAsync.context_to_thread_executor)
    for work in (nothing, counted):
        loop.run(work(), None)
    gc.collect()
    eventually(lambda: len(SyncToAsync.context_to_thread_executor) <= before, "it has forgotten")


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    """Connections that are opened in the test."""
    found: list[Any] = []

    def note(connection: Any, **facts: Any) -> None:
        found.append(connection)

    connection_created.connect(note)
    yield found
    connection_created.disconnect(note)


def all_closed(connections: list[Any]) -> bool:
    return all(each.connection is None for each in connections)


def test_what_a_run_leaves_behind_has_a_thread_for_each_call(
    loop: EventLoop, beside: Any, opened: list[Any]
) -> None:
    go_on = asyncio.Event()
    left: list[Any] = []

    async def later() -> tuple[Any, Any]:
        await go_on.wait()
        await counted()
        return await ours(), await ours()

    async def work() -> Any:
        left.append(asyncio.ensure_future(later()))
        return await ours()

    async def the_rest() -> Any:
        go_on.set()
        return await left.pop()

    its_own = loop.run(work(), None)
    threads = loop.run(the_rest(), None)
    assert len({its_own, *threads}) == 3
    eventually(lambda: opened and all_closed(opened), "their connections are closed")


def test_a_process_that_ends_does_not_wait_for_a_call_without_end() -> None:
    program = """
import django, threading
django.setup()
from asgiref.sync import sync_to_async
from django_tasks.worker.coroutines import EventLoop
loop = EventLoop()
try:
    loop.run(sync_to_async(threading.Event().wait)(), 0.05)
except TimeoutError as error:
    print(error)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.stdout.startswith("handle() took longer than its timeout"), done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_no_connection_of_an_ended_run_is_left_open(
    loop: EventLoop, opened: list[Any], error: Any
) -> None:
    async def work() -> None:
        await counted()
        if error:
            raise error

    for _ in range(5):
        if error:
            with pytest.raises(error):
                loop.run(work(), None)
        else:
            loop.run(work(), None)
    assert len(opened) == 5
    eventually(lambda: all_closed(opened), "all are closed")


def test_its_threads_keep_no_process_from_its_end(loop: EventLoop) -> None:
    async def threads() -> list[threading.Thread]:
        return [threading.current_thread(), await ours()]

    own = loop.run(threads(), None)
    assert [thread.name for thread in own] == ["django_tasks-async", "django_tasks-async-calls"]
    assert all(thread.daemon for thread in own)


def test_a_loop_that_has_ended_has_closed_the_connections_of_its_runs(
    loop: EventLoop, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()

    def close_late() -> None:
        assert go_on.wait(DEADLINE)
        close_connections()

    monkeypatch.setattr(own_thread, "close_connections", close_late)
    loop.run(counted(), None)
    assert not all_closed(opened)
    timer = threading.Timer(0.05, go_on.set)
    timer.start()
    loop.close()
    assert all_closed(opened)
    timer.join()


def test_a_loop_does_not_wait_long_for_a_call_that_goes_on(
    beside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coroutines, "CLOSE_SECONDS", 0.05)
    over = Event()
    loop = EventLoop()
    try:
        with pytest.raises(TimeoutError):
            beside(loop.run, sync_to_async(over.wait)(DEADLINE), 0.05).result(DEADLINE)
        beside(loop.close).result(DEADLINE / 2)
    finally:
        over.set()
