"""Threads that a worker depends on: one that ends is noticed, and replaced."""

from collections.abc import Callable
from threading import Thread

from django_tasks import logs


class LastingThread:
    """A daemon thread that runs ``main`` until ``main`` returns.

    ``main`` returns when its owner has told it to stop; an exception that it lets through ends the
    thread, and ``ensure`` starts another one. Used by one thread.
    """

    def __init__(self, name: str, main: Callable[[], None]) -> None:
        self._name = name
        self._main = main
        self._returned = False
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def ensure(self) -> None:
        """Replace the thread if it has died."""
        if self._thread is not None and not self._returned and not self._thread.is_alive():
            logs.thread_died(self._name)
            self.start()

    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if ``timeout`` seconds were not enough."""
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.is_alive()

    def _run(self) -> None:
        self._main()
        self._returned = True
