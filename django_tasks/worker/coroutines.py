"""An event loop in a thread of its own, for ``async def handle``."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, NamedTuple

from asgiref.sync import sync_to_async
from django.db import close_old_connections


class EventLoop:
    """Started by its first coroutine; one for all executor threads of a worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
        """Run ``coroutine`` on the loop and wait for its result; TimeoutError after ``timeout``."""
        future = asyncio.run_coroutine_threadsafe(_guarded(coroutine, timeout), self._started())
        result = future.result()
        if isinstance(result, Exit):
            raise result.error
        return result

    def close(self) -> None:
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
                self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="django_tasks-async", daemon=True
                )
                self._thread.start()
            return self._loop


class Exit(NamedTuple):
    """SystemExit or KeyboardInterrupt, carried past asyncio: it would let them end the loop."""

    error: BaseException


async def _caught(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        return Exit(error)


async def _guarded(coroutine: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
    # sync_to_async runs the ORM in a thread of its own, whose connections grow old like any.
    try:
        return await asyncio.wait_for(_caught(coroutine), timeout)
    finally:
        await sync_to_async(close_old_connections)()
