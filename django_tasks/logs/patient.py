"""Lines of the log from a thread that must go on: it waits for a handler, but not for long."""

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import Thread
from typing import ParamSpec, TypeVar

from django_tasks.host.clocks import ticks
from django_tasks.logs.lines import send_through

P = ParamSpec("P")
Code = TypeVar("Code", bound=int | None)

# How long lines that hang are waited for, in seconds. Less than the second in which another stop
# signal is the same stop: who reads signals may wait here.
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
        self._thread = Thread()
        self._end = 0.0

    def post(self, line: Callable[[], None]) -> None:
        """Have ``line`` called, and wait for it a moment, but not behind one that hangs."""
        self._waiting.append(line)
        self._wait()

    def hangs(self) -> bool:
        """Tell if a line is not written, a moment after the last one was said."""
        self._end = ticks() + LONGEST_WAIT
        self._wait()
        return bool(self._waiting) or self._thread.is_alive()

    def _wait(self) -> None:
        """Wait for the thread, or for another one if it has ended just when a line came."""
        while self._waiting or self._thread.is_alive():
            if not self._thread.is_alive():
                self._end = ticks() + LONGEST_WAIT
                self._thread = Thread(target=self._main, name="django_tasks-log", daemon=True)
                with suppress(RuntimeError):  # no thread is left for now: the next line tries again
                    self._thread.start()
            if self._thread.ident is None or ticks() >= self._end:
                return
            self._thread.join(max(0.0, self._end - ticks()))

    def _main(self) -> None:
        while self._waiting:
            line = self._waiting.popleft()
            # A log handler that fails, even with SystemExit, leaves nowhere to say so.
            with suppress(BaseException):
                line()


def patiently(run: Callable[P, Code]) -> Callable[P, Code]:
    """Have ``run`` wait for no log handler that hangs, which ends the process with its answer."""

    @wraps(run)
    def patient(*args: P.args, **kwargs: P.kwargs) -> Code:
        log = PatientLog()
        send_through(log.post)
        try:
            code = run(*args, **kwargs)
        finally:
            send_through(None)
        if log.hangs():  # at its exit Python would wait for the lock of that handler
            os._exit(code if isinstance(code, int) else 0)
        return code

    return patient
