"""A deadline of our own for each answer of PostgreSQL that a session of ours waits for.

Its driver waits without end for a server whose host is there and that is silent: stopped, hung on
its disk, or gone behind a pooler or proxy that still acknowledges each packet. All other bounds are
kept by the server itself, or by the kernel at the other side. So a thread without a connection
looks at those who wait, and ends the connection of one that has waited for too long: it meets the
error of a broken connection then, as in any outage. MySQL's driver bounds each wait by itself.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, RLock, Thread
from typing import Any

from django_tasks.host import forks
from django_tasks.host.clocks import ticks
from django_tasks.host.interrupts import uninterrupted

NAME = "django_tasks-answers"
# The name under which a connection keeps its wait.
KEPT = "_django_tasks_wait"
# How often the thread looks, of the shortest wait that it is to bound.
LOOKS = 4


class Wait:
    """The waits of one connection, each for up to ``seconds``. Entered by its thread alone.

    ``is_ours``: all that is asked on it is, so each transaction that waits is one of these waits.
    """

    __slots__ = ("_connection", "_is_ours", "_since", "_was_cut", "depth", "seconds")

    def __init__(self, connection: Any, seconds: float, *, is_ours: bool = True) -> None:
        self._connection = connection
        self.seconds = seconds
        self._is_ours = is_ours
        self._since = ticks()
        self.depth = 0
        self._was_cut = False

    @contextmanager
    def here(self) -> Iterator[None]:
        """Count what is done meanwhile as one wait; an error that it was cut off with says so."""
        depth = self.depth
        try:
            self._since, self.depth = ticks(), depth + 1
            yield
        except Exception as error:
            if self._was_cut:
                self._was_cut = False
                error.args = (f"no answer for {self.seconds:g} s; {error}",)
            raise
        finally:
            self.depth, self._since = depth, ticks()

    def execute(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """Run a statement, as one of Django's wrappers."""
        with self.here():
            return execute(sql, params, many, context)

    def is_open(self) -> bool:
        return self.depth > 0 or (self._is_ours and self._connection.connection is not None)

    def is_over(self) -> bool:
        """Tell if its time has passed. In a transaction, a commit may be what is waited for: no
        wrapper sees that.
        """
        waits = self.depth > 0 or (self._is_ours and not self._connection.autocommit)
        return waits and ticks() - self._since > self.seconds

    def cut(self) -> None:
        """End the connection under it, if there is one. For another thread.

        Race: the driver closes it now, and its number becomes that of another file. So the number
        is asked for again once there is a copy, which nobody can take away.
        """
        with suppress(Exception):  # of the driver: it is closed
            number = self._connection.connection.fileno()
            with socket.fromfd(number, socket.AF_UNSPEC, socket.SOCK_STREAM) as copy:
                if self._connection.connection.fileno() == number and self.is_over():
                    self._was_cut = True
                    copy.shutdown(socket.SHUT_RDWR)


class _Watch:
    """The thread that looks; it lives while a connection is open, in each process."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all: the child of a fork has neither the thread nor whoever waits."""
        self._waits: set[Wait] = set()
        self._changed = Condition()
        self._thread: Thread | None = None

    @uninterrupted
    def add(self, wait: Wait) -> None:
        """Look at a wait that is entered. Race: the thread is leaving out what is closed. It does
        so under the lock, and one that is entered counts as open.
        """
        with self._changed:
            is_watched = self._thread is not None and self._thread.is_alive()
            if is_watched and wait in self._waits:
                return
            self._waits.add(wait)
            if not is_watched:
                thread = Thread(target=self._main, name=NAME, daemon=True)
                with suppress(RuntimeError):  # a process that ends starts none
                    thread.start()
                    self._thread = thread
            self._changed.notify()

    @uninterrupted
    def remove(self, wait: Wait) -> None:
        with self._changed:
            self._waits.discard(wait)
            self._changed.notify()

    def _main(self) -> None:
        while True:
            with self._changed:
                self._waits = {wait for wait in self._waits if wait.is_open()}
                if not self._waits:
                    self._thread = None
                    return
                self._changed.wait(min(wait.seconds for wait in self._waits) / LOOKS)
                waits = list(self._waits)
            for wait in waits:
                if wait.is_over():
                    wait.cut()


_watch = _Watch()
forks.in_child(_watch.begin_anew)


def bound_answers(connection: Any, seconds: float) -> None:
    """Bound each wait of a connection of ours for its server, where its driver does not:
    PostgreSQL's. What connects it says so by ``answered``.
    """
    if connection.vendor == "postgresql":
        wait = Wait(connection, seconds)
        _keep(wait, connection)
        connection.execute_wrappers.append(wait.execute)


def bound_steps(connection: Any, seconds: float) -> None:
    """Bound what the package asks on a connection of the project's, and not what its code does."""
    if connection.vendor == "postgresql" and not hasattr(connection, KEPT):
        _keep(Wait(connection, seconds, is_ours=False), connection)


def _keep(wait: Wait, connection: Any) -> None:
    """Watch a connection, whose thread is never to wait for itself, either: in the middle of a
    statement it may collect a generator that hangs in an ``atomic()``, and rolls back.
    """

    def get_new_connection(parameters: Any) -> Any:
        made = connect(parameters)
        made.lock = RLock()
        return made

    setattr(connection, KEPT, wait)
    connect, connection.get_new_connection = connection.get_new_connection, get_new_connection


def unbound(connection: Any) -> None:
    """Look at a connection no more that is closed for good: the thread need not wait for it."""
    if wait := getattr(connection, KEPT, None):
        _watch.remove(wait)


@contextmanager
def answered(connection: Any, *, is_first: bool = False) -> Iterator[None]:
    """Bound what waits without a statement of Django's, the set-up of a session or the look if it
    is usable, and what the package asks in a run. To connect has a bound of its own. ``is_first``:
    nothing else waits, though the timeout of a run may have come between two lines here.
    """
    wait: Wait | None = getattr(connection, KEPT, None)
    if wait is None:
        yield
        return
    if is_first:
        wait.depth = 0
    with wait.here():
        _watch.add(wait)
        yield
