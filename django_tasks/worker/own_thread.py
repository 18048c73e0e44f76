"""A thread for the calls of one run."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from django_tasks.store.connection import close_connections

R = TypeVar("R")

# A call and who waits for it; None ends the thread.
Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class OwnThread(Executor):
    """Runs calls one after the other in one thread, which is made for the first of them.

    A daemon, unlike the threads of Python's own executors: a process that stops does not wait for a
    call without end.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: Calls | None = None
        self._has_ended = False

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Call ``fn`` in the thread. After ``end``, in another one that ends with that call."""
        future: Future[R] = Future()
        with self._lock:
            calls = self._calls or self._started()
            calls.put((future, partial(fn, *args, **kwargs)))
            if self._has_ended:
                self._finish(calls)
        return future

    def end(self) -> Future[None] | None:
        """Have the thread close its connections and end, after the calls that it has.

        Returns at once; None if there never was a thread.
        """
        with self._lock:
            self._has_ended = True
            return self._finish(self._calls) if self._calls else None

    def _started(self) -> Calls:
        calls = Calls()
        Thread(target=_serve, args=(calls,), name="django_tasks-async-calls", daemon=True).start()
        self._calls = calls  # not before: where no thread is left, the next call tries again
        return calls

    def _finish(self, calls: Calls) -> Future[None]:
        closed: Future[None] = Future()
        calls.put((closed, close_connections))
        calls.put(None)
        self._calls = None
        return closed


def _serve(calls: Calls) -> None:
    while (asked := calls.get()) is not None:
        _answer(*asked)
        del asked  # or it is kept until the next one


def _answer(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - for the thread that waits
        future.set_exception(error)
    else:
        future.set_result(result)
