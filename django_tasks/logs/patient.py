"""Lines of the log from a thread that must go on: it waits for a handler, but not for long."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from django_tasks.host.clocks import ticks
from django_tasks.logs.lines import send_through

# How long lines may take until the thread that says them goes on, in seconds. Less than the second
# in which another stop signal is the same stop: a thread that reads signals may wait here.
LONGEST_WAIT = 0.5
# Lines that may wait for a handler that hangs; older ones are dropped.
CAPACITY = 1000


class PatientLog:
    """Writes lines in a thread that ends with the last of them. Used by one thread.

    For a supervisor, which forks: a thread that lasted could hold a lock at that moment. There is
    none as long as the handlers of the log are well.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque(maxlen=CAPACITY)
        self._thread: Thread | None = None
        self._end = 0.0

    def post(self, line: Callable[[], None]) -> None:
        """Have ``line`` called, and wait for it for a moment. One that hangs is waited for once."""
        if not self._is_alive():
            self._end = ticks() + LONGEST_WAIT
        self._waiting.append(line)
        self._wait()

    def hangs(self) -> bool:
        """Tell if a line has not been written yet, a moment after the last one was said."""
        self._end = ticks() + LONGEST_WAIT
        self._wait()
        return self._is_busy()

    def _wait(self) -> None:
        with suppress(RuntimeError):  # no thread is left for now: the next line tries again
            while self._is_busy():
                thread = self._ensured()
                if (left := self._end - ticks()) <= 0:
                    return
                thread.join(left)

    def _is_busy(self) -> bool:
        return bool(self._waiting) or self._is_alive()

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _ensured(self) -> Thread:
        """The thread, another one if it has ended just when a line came."""
        if self._thread is None or not self._thread.is_alive():
            thread = Thread(target=self._main, name="django_tasks-log", daemon=True)
            thread.start()
            self._thread = thread
        return self._thread

    def _main(self) -> None:
        while self._waiting:
            line = self._waiting.popleft()
            # A log handler that fails, even with SystemExit, leaves nowhere to say so.
            with suppress(BaseException):
                line()


@contextmanager
def patient_lines() -> Iterator[PatientLog]:
    """Have the lines of the current thread wait for no handler that hangs."""
    log = PatientLog()
    send_through(log.post)
    try:
        yield log
    finally:
        send_through(None)
