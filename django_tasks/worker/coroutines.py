"""An event loop in a thread of its own, for ``async def handle``.

Each run has a thread of its own for its ``sync_to_async`` calls, among them every use of the ORM.
asgiref would send those of all runs through one thread of the process: a run in a long call would
then hold up the calls, and the ends, of all others.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_tasks import logs
from django_tasks.worker.own_thread import OwnThread
from django_tasks.worker.places import place_of, too_long

# How long the end of the loop waits for connections that are just being closed.
CLOSE_SECONDS = 2.0


class EventLoop:
    """Started by its first coroutine; one for all executor threads of a worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing: set[Future[None]] = set()
        self._is_ending = False

    def run(
        self, coroutine: Coroutine[Any, Any, Any], timeout: float | None, name: str = "handle()"
    ) -> Any:
        """Run ``coroutine`` on the loop and wait for its result; TimeoutError after ``timeout``.

        The error tells of ``name`` and where the coroutine was. One that ends well although it was
        cancelled has ended well.
        """
        try:
            loop = self._started()
        except RuntimeError:
            coroutine.close()
            raise
        work = self._alone(coroutine if timeout is None else limited(coroutine, timeout, name))
        result = asyncio.run_coroutine_threadsafe(work, loop).result()
        if not isinstance(result, Raised):
            return result
        try:
            raise result.error
        finally:
            del result  # or its traceback keeps it, and what hangs in its frames

    def close(self) -> None:
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._is_ending = True
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
                self._loop = None
        wait(set(self._closing), CLOSE_SECONDS)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._is_ending = False
                thread = threading.Thread(
                    target=self._serve, args=(loop,), name="django_tasks-async", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no thread is left for now: the next run tries again
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    # In the loop's thread

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until it is closed, over SystemExit of an asyncio task that a handler made.

        asyncio lets it through after the task has its exception, so the run that waits for that
        task ends; all others would wait for ever. Race: it comes in the same round as the stop,
        which it takes back.
        """
        while not self._is_ending:
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                logs.loop_interrupted(error)

    async def _alone(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        own, thread = ThreadSensitiveContext(), OwnThread()
        SyncToAsync.context_to_thread_executor[own] = thread
        SyncToAsync.thread_sensitive_context.set(own)  # for this asyncio task and those it makes
        try:
            return await coroutine
        except BaseException as error:  # noqa: BLE001 - for the thread that waits
            return Raised(error)
        finally:
            self._leave(thread)

    def _leave(self, thread: OwnThread) -> None:
        """End the thread of a run, without waiting for it.

        After a timeout it may be busy for long: asgiref's own context would then hold up the event
        loop, or this run.
        """
        if (closing := thread.end()) is not None:
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class Raised(NamedTuple):
    """An exception of a coroutine, carried past asyncio.

    It would let SystemExit and KeyboardInterrupt end the loop, and make another error of a timeout
    or a cancellation, without a traceback.
    """

    error: BaseException


class Timeout:
    """The timeout of the asyncio task that makes it. ``place`` is set when it has passed."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], seconds: float) -> None:
        self.place: str | None = None
        self._coroutine = coroutine
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._pass)

    def end(self) -> None:
        self._timer.cancel()

    def _pass(self) -> None:
        self.place = place_of(self._coroutine)  # before the task goes on: it moves then
        if self._task is not None:
            self._task.cancel()


async def limited(coroutine: Coroutine[Any, Any, Any], seconds: float, name: str) -> Any:
    """Await ``coroutine`` for up to ``seconds``. Raises TimeoutError, which says where it was."""
    timeout = Timeout(coroutine, seconds)
    try:
        return await coroutine
    except asyncio.CancelledError as error:
        if timeout.place is None:
            raise
        raise TimeoutError(too_long(name, seconds, timeout.place)) from error
    finally:
        timeout.end()
