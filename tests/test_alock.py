"""A coroutine that ends in the middle of ``alock`` does not keep the lock."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from functools import partial
from threading import Event
from types import coroutine as awaitable
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, sync_to_async
from django.db import connections

from django_tasks.api import alock
from django_tasks.locks import locking, rows
from django_tasks.models import Lock
from tests.waiting import DEADLINE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

LEASE = 600  # so that nobody frees a lock by waiting


@pytest.fixture(autouse=True)
def no_lock_is_left() -> Iterator[None]:
    """Nor a thread that renews one, nor the connection of asgiref's thread."""
    yield
    eventually(lambda: not Lock.objects.exclude(holder="").exists(), "the lock is free")
    eventually(
        lambda: not [each for each in threading.enumerate() if "django_tasks-lock" in each.name],
        "its threads have ended",
    )
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(DEADLINE)


def is_taken() -> bool:
    return Lock.objects.exclude(holder="").exists()


async def section(body: Callable[[], Coroutine[Any, Any, Any]], wait: float | None = None) -> None:
    async with alock("report", lease=LEASE, wait=wait):
        await body()


async def pause() -> None:
    await asyncio.sleep(0.001)


# Cancelled at each await


@awaitable
def cancelled_at(
    number: int, moment: str, work: Coroutine[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Run a coroutine and cancel its task at one of its awaits.

    ``moment``: "waiting", as soon as it waits; "answered", when what it waits for has come and the
    coroutine has not gone on yet.
    """
    task = asyncio.current_task()
    assert task is not None
    go_on: Callable[[], Any] = partial(work.send, None)
    while True:
        try:
            future = go_on()
        except StopIteration as end:
            return end.value
        if number == 0 and moment == "waiting":
            asyncio.get_running_loop().call_soon(task.cancel)
        elif number == 0:
            future.add_done_callback(lambda _: task.cancel())
        number -= 1
        try:
            answer = yield future
        except BaseException as error:
            go_on = partial(work.throw, error)
        else:
            go_on = partial(work.send, answer)


MOMENTS = pytest.mark.parametrize("moment", ["waiting", "answered"])


async def run_cancelled(number: int, moment: str, work: Coroutine[Any, Any, Any]) -> None:
    async def run() -> None:
        await cancelled_at(number, moment, work)

    task = asyncio.ensure_future(run())
    await asyncio.wait([task])
    assert task.cancelled(), "it had fewer awaits"


@MOMENTS
@pytest.mark.parametrize("number", range(3), ids=["take", "body", "leave"])
def test_a_lock_is_free_wherever_its_coroutine_is_cancelled(number: int, moment: str) -> None:
    asyncio.run(run_cancelled(number, moment, section(pause)))


@MOMENTS
@pytest.mark.parametrize("number", range(5), ids=["take", "wait", "again", "body", "leave"])
def test_a_lock_that_was_waited_for_is_free_wherever_its_coroutine_is_cancelled(
    number: int, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, refused = locking._taken, iter([True])
    monkeypatch.setattr(locking, "_taken", lambda wish: None if next(refused, 0) else take(wish))
    asyncio.run(run_cancelled(number, moment, section(pause, wait=DEADLINE)))


# Threads that are busy


@pytest.fixture
def slow_take(monkeypatch: pytest.MonkeyPatch) -> tuple[Event, Event]:
    """A database that has taken the lock and does not answer until the second event is set."""
    taken, answer = Event(), Event()
    take = rows.take

    def slow(*args: Any, **kwargs: Any) -> Any:
        hold = take(*args, **kwargs)
        taken.set()
        assert answer.wait(DEADLINE)
        return hold

    monkeypatch.setattr(rows, "take", slow)
    return taken, answer


def test_a_lock_that_comes_after_its_event_loop_has_gone_is_free(
    slow_take: tuple[Event, Event],
) -> None:
    taken, answer = slow_take

    async def main() -> None:
        task = asyncio.ensure_future(section(pause))
        await asyncio.to_thread(taken.wait, DEADLINE)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    assert is_taken()
    answer.set()


@pytest.fixture
def busy() -> Iterator[Callable[[], Any]]:
    """Call it, and the thread of all ``sync_to_async`` calls is busy until the test ends."""
    begun, over = Event(), Event()

    def work() -> None:
        begun.set()
        assert over.wait(DEADLINE)

    async def keep_busy() -> None:
        asyncio.get_running_loop().run_in_executor(SyncToAsync.single_thread_executor, work)
        await asyncio.to_thread(begun.wait, DEADLINE)

    yield keep_busy
    over.set()


def test_a_take_that_has_not_begun_is_not_begun_any_more(
    busy: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "_taken", lambda wish: pytest.fail("it was taken"))

    async def main() -> None:
        await busy()
        task = asyncio.ensure_future(section(pause))
        await pause()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())


def test_a_coroutine_that_is_cancelled_twice_frees_its_lock_although_no_thread_has_time(
    busy: Callable[[], Any],
) -> None:
    async def main() -> None:
        inside = asyncio.Event()

        async def body() -> None:
            inside.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(section(body))
        await inside.wait()
        await busy()
        task.cancel()
        await pause()
        assert not task.done()  # it waits for the thread
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    eventually(lambda: not is_taken(), "the lock is free while the thread is busy")


def test_a_coroutine_that_is_thrown_away_frees_its_lock() -> None:
    async def main() -> None:
        manager = alock("report", lease=LEASE)
        await manager.__aenter__()
        assert await sync_to_async(is_taken)()
        await manager.gen.aclose()  # as the garbage collector does it

    asyncio.run(main())
