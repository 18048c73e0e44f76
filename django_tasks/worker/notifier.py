"""Other people's code, kept off the poller's thread: receivers of signals, and log handlers."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Condition
from typing import Any

from django.dispatch import Signal

from django_tasks import logs, signals
from django_tasks.host.clocks import ticks
from django_tasks.store.connection import (
    close_connections,
    leave_transactions,
    own_connections,
)
from django_tasks.worker.fresh_context import FreshContext
from django_tasks.worker.threads import LastingThread

# Messages that may wait. A receiver that hangs must not fill the memory.
CAPACITY = 10_000
SAY_DROPPED_SECONDS = 60.0
# How long a worker that stops waits for receivers that are slow, in seconds.
CLOSE_SECONDS = 5.0

Message = Callable[[], None]


class Notifier:
    """Delivers messages one after the other, in a thread of its own, in the order of their posts.

    ``post`` and ``tell`` are for any thread and never wait: a message that finds no room is
    dropped and counted.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._waiting: deque[Message] = deque()
        self._news = Condition()
        self._closing = False
        self._dropped = 0
        self._said_dropped = float("-inf")
        self._thread = LastingThread(f"django_tasks-notifier-{using}", self._main)

    def start(self) -> None:
        self._thread.start()

    def ensure(self) -> None:
        """Replace the thread if it has died."""
        self._thread.ensure()

    def close(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Deliver what waits and end; False if ``timeout`` seconds were not enough."""
        with self._news:
            self._closing = True
            self._news.notify()
        return self._thread.join(timeout)

    def tell(self, signal: Signal, sender: Any, **facts: Any) -> None:
        """Send a signal, later. Costs next to nothing where nobody listens."""
        if signal.receivers:
            self.post(partial(signals.tell, signal, sender, **facts))

    def post(self, message: Message) -> None:
        with self._news:
            if len(self._waiting) >= CAPACITY:
                self._dropped += 1
                return
            self._waiting.append(message)
            self._news.notify()

    def _main(self) -> None:
        own_connections()
        context = FreshContext()
        try:
            while (message := self._next()) is not None:
                context.run(_deliver, message)
                leave_transactions()  # a receiver's: the next one has nothing to do with it
                self._say_dropped()
                if not self._waiting:
                    close_connections()  # a receiver's; it may sleep for days now
        finally:
            close_connections()

    def _next(self) -> Message | None:
        with self._news:
            while not (self._waiting or self._closing):
                self._news.wait()
            return self._waiting.popleft() if self._waiting else None

    def _say_dropped(self) -> None:
        if self._dropped and ticks() - self._said_dropped >= SAY_DROPPED_SECONDS:
            with self._news:
                dropped, self._dropped = self._dropped, 0
            self._said_dropped = ticks()
            logs.messages_dropped(self._using, dropped)


def _deliver(message: Message) -> None:
    # A receiver that fails has been logged by then. A log handler that fails, even with SystemExit,
    # leaves nowhere to say so.
    with suppress(BaseException):
        message()
