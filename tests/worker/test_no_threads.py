"""A host that has no thread left for a moment: what was to start comes later, and not never."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest

from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.executor import Executor
from django_tasks.worker.own_thread import OwnThread
from django_tasks.worker.timeouts import KILL_NAME
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import added
from tests.worker.test_kill_after import Start, gate, start, stuck

__all__ = ["gate", "start"]  # fixtures


@contextmanager
def refused_once(name: str) -> Iterator[list[str]]:
    """Let the first start of a thread of this name fail; yields the names of those that did."""
    refused: list[str] = []
    intact = Thread.start

    def begin(thread: Thread) -> None:
        if thread.name.startswith(name) and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        intact(thread)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Thread, "start", begin)
        yield refused


@pytest.mark.django_db(transaction=True)
def test_a_run_that_does_not_end_is_given_up_at_the_next_look(
    register: Register, start: Start, gate: Event
) -> None:
    register(partial(stuck, gate, Event()), kill_after=0.1, backoff=3600)
    added()
    with refused_once(KILL_NAME) as refused:
        worker = start()
        eventually(lambda: worker.is_condemned, "it is given up")
    assert refused == [KILL_NAME]
    assert worker.join(DEADLINE)


def test_the_next_call_of_an_async_run_has_its_thread() -> None:
    own = OwnThread()
    with refused_once("django_tasks-async-calls"):
        with pytest.raises(RuntimeError):
            own.submit(lambda: 1)
        assert own.submit(lambda: 2).result(DEADLINE) == 2
    own.end()


def test_the_next_async_run_has_its_loop() -> None:
    async def answer() -> int:
        return 1

    loop = EventLoop()
    with refused_once("django_tasks-async"):
        with pytest.raises(RuntimeError):
            loop.run(answer(), None)
        assert loop.run(answer(), DEADLINE) == 1
    loop.close()


def test_a_thread_that_has_died_is_replaced_in_the_next_cycle() -> None:
    def run(item: Any, take: Any) -> Any:
        raise AssertionError

    run.crashed = None  # type: ignore[attr-defined]
    executor = Executor(1, run, lambda: None)  # type: ignore[arg-type]
    executor.start()
    executor.close()
    executor.join()
    executor._closing = False
    with refused_once("django_tasks-1"):
        executor.mend()
        assert not executor._threads[0].is_alive()
        executor.mend()
        assert executor._threads[0].is_alive()
    executor.close()
    executor.join()
