"""Lines of the log from a thread that must go on: it waits for a handler, but not for long."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from django_tasks.host.clocks import ticks

# How long a line may take until the thread that says it goes on, in seconds.
LONGEST_WAIT = 1.0
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

    def post(self, line: Callable[[], None]) -> None:
        """Have ``line`` called, and wait for it for a second at most."""
        self._waiting.append(line)
        end = ticks() + LONGEST_WAIT
        while self._is_busy() and (left := end - ticks()) > 0:
            self._ensured().join(left)

    def hangs(self) -> bool:
        """Tell if a line has not been written yet."""
        return self._is_busy()

    def _is_busy(self) -> bool:
        return bool(self._waiting) or self._is_alive()

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _ensured(self) -> Thread:
        """The thread, another one if it has ended just when a line came."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._main, name="django_tasks-log", daemon=True)
            self._thread.start()
        return self._thread

    def _main(self) -> None:
        while self._waiting:
            line = self._waiting.popleft()
            # A log handler that fails, even with SystemExit, leaves nowhere to say so.
            with suppress(BaseException):
                line()
