"""``async def handle``: on one event loop, with its time limit enforced."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from django_tasks import api
from django_tasks.handlers.base import TaskHandler
from django_tasks.values.outcomes import Done, Fail, Outcome, Reschedule, Retry
from django_tasks.worker.coroutines import EventLoop
from tests.conftest import Elsewhere
from tests.waiting import DEADLINE
from tests.worker.conftest import Register
from tests.worker.parts import added, claimed, joined, runner

# The loop and its handlers live in other threads, on connections of their own.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(
    register: Register, event_loop_thread: EventLoop, elsewhere: Elsewhere
) -> Callable[..., Outcome]:
    def run(function: Callable[..., Any], **attributes: Any) -> Outcome:
        register(function, **attributes)
        membership = joined()
        added()
        (claim,) = claimed(membership.worker_id)
        outcome: Outcome = (
            elsewhere(runner(membership, event_loop_thread), claim).result(DEADLINE).outcome
        )
        return outcome

    return run


Run = Callable[..., Outcome]


def test_an_async_handler_ends_like_any_other(run: Run) -> None:
    async def handle(task: Any) -> timedelta:
        await asyncio.sleep(0)
        task.biz_ext = {"step": 2}
        return timedelta(hours=1)

    outcome = run(handle)
    assert isinstance(outcome, Reschedule)
    assert outcome.biz_ext == '{"step": 2}'


def test_a_handler_that_only_wraps_a_coroutine_is_async_too(run: Run) -> None:
    async def work() -> timedelta:
        await asyncio.sleep(0)
        return timedelta(hours=1)

    assert isinstance(run(lambda task: work()), Reschedule)


def test_a_coroutine_of_an_atomic_handler_is_refused_and_not_run(run: Run) -> None:
    ran: list[Any] = []

    async def work() -> None:
        ran.append("outside of the transaction")

    outcome = run(lambda task: work(), atomic=True)
    assert isinstance(outcome, Retry)
    assert "must be no coroutine where atomic is set" in outcome.error
    assert not ran


def test_an_async_method_works_like_a_function(event_loop_thread: EventLoop) -> None:
    class Handler(TaskHandler):
        async def handle(self, task: Any) -> str:
            return f"{task} by {type(self).__name__}"

    assert event_loop_thread.run(Handler().handle("job"), None) == "job by Handler"


def test_an_async_handler_may_use_the_database(run: Run) -> None:
    seen: list[Any] = []

    async def handle(task: Any) -> None:
        found = await api.aget_task(task.biz_code, task.biz_num)
        seen.append(found and found.pk == task.id)
        seen.append(await task.acancel_requested())
        await api.acancel_task(task.biz_code, task.biz_num)
        seen.append(await task.acancel_requested())

    assert run(handle) == Done()
    assert seen == [True, False, True]


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()], ids=repr)
def test_whatever_an_async_handler_raises_is_a_failed_attempt(
    run: Run, error: BaseException
) -> None:
    async def handle(task: Any) -> None:
        raise error

    outcome = run(handle)
    assert isinstance(outcome, Retry)
    assert type(error).__name__ in outcome.error


def in_thread(function: Callable[[], Any]) -> "Future[Any]":
    """Call a function in a daemon thread: one that hangs must not hang the tests."""
    future: Future[Any] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_an_async_handler_that_exits_neither_hangs_nor_ends_the_loop(
    error: BaseException, timeout: float | None
) -> None:
    """asyncio lets these two through: a loop that dies of them answers nobody any more."""

    async def leave() -> None:
        raise error

    async def answer() -> int:
        return 42

    loop = EventLoop()
    try:
        assert in_thread(lambda: loop.run(leave(), timeout)).exception(DEADLINE / 10) is not None
        assert in_thread(lambda: loop.run(answer(), None)).result(DEADLINE / 10) == 42
    finally:
        loop.close()


@pytest.mark.parametrize("timeout", [0.05, timedelta(milliseconds=50)])
def test_the_timeout_of_an_async_handler_is_enforced(run: Run, timeout: Any) -> None:
    ended: list[str] = []

    async def handle(task: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    outcome = run(handle, timeout=timeout, max_attempts=1)
    assert isinstance(outcome, Fail)
    place = f"{__file__.removeprefix(os.getcwd() + '/')}:{handle.__code__.co_firstlineno + 2}"
    words = f"handle() took longer than its timeout of 0.05 s (at {place} in handle)"
    assert outcome.error.endswith(f"\nTimeoutError: {words}\n")
    assert "await asyncio.Event().wait()" in outcome.error, "the traceback of the handler"
    assert ended == ["cancelled"]


async def raising(task: Any) -> None:
    raise TimeoutError("no answer from the shop")


async def raising_when_it_is_cancelled(task: Any) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await raising(task)


@pytest.mark.parametrize("handle", [raising, raising_when_it_is_cancelled])
def test_a_timeout_error_of_the_handlers_own_is_kept(run: Run, handle: Any) -> None:
    outcome = run(handle, timeout=0.05, max_attempts=1)
    assert isinstance(outcome, Fail)
    assert outcome.error.endswith("\nTimeoutError: no answer from the shop\n")
    assert ", in raising\n" in outcome.error


def test_a_handler_that_ends_well_although_it_was_cancelled_has_ended_well(run: Run) -> None:
    async def handle(task: Any) -> timedelta:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return timedelta(hours=1)

    assert isinstance(run(handle, timeout=0.05), Reschedule)


def test_a_timeout_that_has_not_passed_changes_nothing(run: Run) -> None:
    async def handle(task: Any) -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    outcome = run(handle, timeout=DEADLINE)
    assert isinstance(outcome, Retry)
    assert "TimeoutError" not in outcome.error


def test_on_failure_may_be_async(run: Run) -> None:
    told: list[str] = []

    async def handle(task: Any) -> None:
        raise ValueError("no")

    async def on_failure(task: Any, exc: BaseException) -> None:
        await asyncio.sleep(0)
        told.append(f"{task}: {exc}")

    assert isinstance(run(handle, max_attempts=1, on_failure=on_failure), Fail)
    assert told == ["job/1: no"]


def test_async_handlers_of_several_threads_share_the_loop(event_loop_thread: EventLoop) -> None:
    together = Barrier(3)
    met = Event()

    async def meet(number: int) -> int:
        arrived.append(number)
        while len(arrived) < 3:
            await asyncio.sleep(0)
        met.set()
        return number

    arrived: list[int] = []

    def call(number: int) -> Any:
        together.wait(DEADLINE)
        return event_loop_thread.run(meet(number), DEADLINE)

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(call, range(3))) == [0, 1, 2]
    assert met.is_set()


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("awaited", [True, False])
def test_a_task_that_exits_inside_a_handler_hangs_no_run(
    error: BaseException, awaited: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio lets these two through the loop from each of its tasks, also from a handler's own."""

    async def leave() -> None:
        raise error

    async def parent() -> str:
        task = asyncio.get_running_loop().create_task(leave())
        if awaited:
            await task
        else:
            with suppress(BaseException):
                await asyncio.wait([task])
        return "on"

    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    loop = EventLoop()
    try:
        run = in_thread(lambda: loop.run(parent(), None))
        other = in_thread(lambda: loop.run(answer(), None))
        if awaited:
            assert type(run.exception(DEADLINE / 10)) is type(error)
        else:
            assert run.result(DEADLINE / 10) == "on"
        assert other.result(DEADLINE / 10) == 42
        assert in_thread(lambda: loop.run(answer(), None)).result(DEADLINE / 10) == 42
    finally:
        loop.close()
    assert caplog.text.count(f"has raised {type(error).__name__}") == 1


def test_a_loop_that_nobody_used_closes_and_closing_twice_is_fine() -> None:
    loop = EventLoop()
    loop.close()
    loop.close()


def test_a_closed_loop_leaves_no_thread() -> None:
    async def nothing() -> None:
        pass

    loop = EventLoop()
    loop.run(nothing(), None)
    thread = loop._thread
    loop.close()
    assert thread is not None
    assert not thread.is_alive()
