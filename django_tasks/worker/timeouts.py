"""The time limits of runs: a thread that raises TaskTimeout in theirs, and has it told.

It also sees which runs have not ended ``kill_after`` their start; others attend to those.

A run without a timeout has nothing to do with any of this. The others put themselves in a place of
their own, and go without a lock: the exception may come in the middle of that, and a lock would
stay locked. So what they share with the thread of the limits are a dict and a queue whose methods
are atomic.
"""

import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from threading import Lock, Thread, get_ident
from typing import Any

from django_tasks.exceptions import TaskTimeout
from django_tasks.handlers.base import kill_limit
from django_tasks.host import interrupts
from django_tasks.host.clocks import ticks
from django_tasks.host.interrupts import Interrupt
from django_tasks.store.connection import abandon_connections, error_classes, whole_statements
from django_tasks.worker.fresh_context import FreshContext
from django_tasks.worker.overdue import report
from django_tasks.worker.places import place_at, place_in, too_long
from django_tasks.worker.run import Run
from django_tasks.worker.threads import LastingThread

NAME = "django_tasks-timeouts"
KILL_NAME = "django_tasks-kill"
# Between two tries to raise in a thread that keeps it away for the moment.
AGAIN_SECONDS = 0.005
# Between two looks at one in which it was raised: Python may have swallowed it, see ``come_again``.
# And at one to be given up for which there was no thread.
LOOK_SECONDS = 1.0
# The clock goes on while the host is suspended, and a sleeper's does not.
LONGEST_SLEEP = 60.0


# Called with the runs of a call that does not end, and the error that they have failed with.
Kill = Callable[[Sequence[Run], TaskTimeout], None]


class TimeLimit:
    """The limits of one call: its runs, the moments at which they have passed, and its interrupt.

    ``timeout`` is seconds, or None. The moments and ``is_told`` belong to the thread of the limits.
    ``place`` answers where the call is now; ``context`` is that of its thread, for those who are
    told of it in others. Known by its identity.
    """

    __slots__ = (
        *("context", "interrupt", "is_told", "kill_after", "kill_at", "name"),
        *("place", "runs", "started", "timeout_at"),
    )

    def __init__(
        self,
        runs: Sequence[Run],
        timeout: float | None,
        interrupt: Interrupt | None,
        name: str,
        place: Callable[[], str] | None = None,
    ) -> None:
        self.runs = runs
        self.context = FreshContext()
        self.started = ticks()
        self.timeout_at = inf if timeout is None else self.started + timeout
        self.kill_after = kill_limit(runs[0].handler)
        self.kill_at = inf if self.kill_after is None else self.started + self.kill_after
        self.interrupt = interrupt
        self.name = name
        self.place = place or partial(_place_of_thread, get_ident())
        self.is_told = False

    @property
    def at(self) -> float:
        """The moment at which it is to be attended to."""
        return min(self.timeout_at, self.kill_at)


class Timeouts:
    """One for all threads of a worker; its own thread is made for the first limit."""

    def __init__(self) -> None:
        self._limits: dict[TimeLimit, None] = {}
        self._news: SimpleQueue[None] = SimpleQueue()
        # The moment of the next look, for those who come meanwhile.
        self._next_look = inf
        self._is_closing = False
        self._lock = Lock()
        self._thread: LastingThread | None = None
        self._kill: Kill | None = None
        self._killing: list[Thread] = []

    def on_kill(self, kill: Kill) -> None:
        """Have ``kill`` called, in a thread of its own, for a call past its ``kill_after``.

        To be said before the first call. If it is not said, nothing becomes of that limit.
        """
        self._kill = kill

    def call(
        self, runs: Sequence[Run], seconds: float, name: str, method: Callable[..., Any], what: Any
    ) -> Any:
        """Call ``method`` with ``what``; TaskTimeout is raised in it after ``seconds``.

        It says where that was. The answer of a method that has caught it stands, unless it is that
        of an ``atomic`` handler: nobody knows what of the transaction was interrupted.
        """
        if not interrupts.are_possible():
            return self.during(runs, seconds, name, partial(method, what))
        self._ensure_started()
        interrupt = Interrupt(TaskTimeout)
        limit = TimeLimit(runs, seconds, interrupt, name)
        with whole_statements():
            answer, error = interrupt.run(partial(self._add, limit), method, what)
        self._limits.pop(limit, None)
        run = runs[0]
        if interrupt.has_fired:
            _release_log_locks()
            abandon_connections(keeping=run.using if run.handler.atomic else None)
            if error is None and run.handler.atomic:
                error = TaskTimeout()
            error = _behind(error)
            if isinstance(error, TaskTimeout) and not error.args:
                error.args = (too_long(name, seconds, place_in(error.__traceback__)),)
        if error is None:
            return answer
        try:
            raise error
        finally:
            del error  # or its traceback keeps it, and what hangs in its frames

    def during(
        self,
        runs: Sequence[Run],
        seconds: float | None,
        name: str,
        call: Callable[[], Any],
        place: Callable[[], str] | None = None,
    ) -> Any:
        """Call something that nothing is raised in: that its time has passed is only told.

        ``place`` answers where it is; None: where this thread is.
        """
        self._ensure_started()
        limit = TimeLimit(runs, seconds, None, name, place)
        self._add(limit)
        try:
            return call()
        finally:
            self._limits.pop(limit, None)

    def ensure(self) -> None:
        """Replace the thread if it has died."""
        if self._thread is not None:
            self._thread.ensure()

    def close(self) -> None:
        """End the thread. No run may be under way but those that were given up."""
        self._is_closing = True
        if self._thread is not None:
            self._news.put(None)
            self._thread.join()

    def await_told(self) -> None:
        """Wait until everybody has been told of the runs that were given up. Close it before."""
        for thread in self._killing:
            thread.join()

    # In the threads of the runs

    def _ensure_started(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    interrupts.guard_forks()
                    thread = LastingThread(NAME, self._main)
                    thread.start()
                    self._thread = thread

    def _add(self, limit: TimeLimit) -> None:
        """Have a limit watched. From the first line on, its exception may come.

        Race: the other thread is just looking. It says "any moment" before it looks and the moment
        of the next look afterwards; this one is there before it asks. So either the look finds it,
        or it finds "any moment", or the right one.
        """
        self._limits[limit] = None
        if limit.at < self._next_look:
            self._news.put(None)

    # In the thread of the limits

    def _main(self) -> None:
        while not self._is_closing:
            self._sleep(self._look() - ticks())

    def _sleep(self, seconds: float) -> None:
        try:
            self._news.get(timeout=min(max(0.0, seconds), LONGEST_SLEEP))
        except Empty:
            return

    def _look(self) -> float:
        self._next_look = inf
        now = ticks()
        for limit in list(self._limits):
            if limit.at <= now:
                self._attend(limit, now)
        self._next_look = min((limit.at for limit in list(self._limits)), default=inf)
        return self._next_look

    def _attend(self, limit: TimeLimit, now: float) -> None:
        """Have one be killed whose time for that has come, or have it ended by its timeout."""
        if limit.kill_at <= now:
            limit.kill_at = inf if self._give_up(limit) else now + LOOK_SECONDS
        if limit.timeout_at <= now:
            self._time_out(limit, now)

    def _give_up(self, limit: TimeLimit) -> bool:
        """Have the call given up, unless it has just ended. False if no thread is left for that.

        By another thread: to write ends and to tell of them may take long.
        """
        if self._kill is None or limit.kill_after is None or limit not in self._limits:
            return True
        words = (
            f"{limit.name} had not ended {limit.kill_after:g} s after its start, its kill_after,"
            f" and was killed with its process (at {limit.place()})"
        )
        kill = partial(limit.context.run, self._kill, limit.runs, TaskTimeout(words))
        thread = Thread(target=kill, name=KILL_NAME, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._killing.append(thread)
        return True

    def _time_out(self, limit: TimeLimit, now: float) -> None:
        """Raise the exception, and have the run told of once.

        Race: the run is at its end, or keeps the exception away for the moment. In the first case
        it will have gone soon; in the other, the next try may come to it.
        """
        if limit.interrupt is None:
            limit.timeout_at = inf
        else:
            limit.interrupt.fire()
            limit.timeout_at = now + (LOOK_SECONDS if limit.interrupt.has_fired else AGAIN_SECONDS)
        if not limit.is_told:
            limit.is_told = True
            report(limit.runs, now, limit.context)


def _behind(error: BaseException | None) -> BaseException | None:
    """The timeout that a database error has taken the place of, if it has.

    The clean-up of a driver that was interrupted may raise an error of its own. What is to be
    tried again is decided by the class.
    """
    if not isinstance(error, error_classes()):
        return error
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, TaskTimeout):
        seen = seen.__cause__ or seen.__context__
    return seen or error


def _release_log_locks() -> None:
    """Release the locks of ``logging`` that this thread, which is not within it, has left locked.

    Up to Python 3.12 ``Handler.acquire()`` is a function of Python: an interrupt that comes while
    it waits for the lock is raised when the thread has it, and before the ``try`` that would
    release it. Each other thread would wait for it at its next line of the log. From Python 3.13 on
    there is a ``with`` statement on the lock itself, into which nothing comes: nothing is found.
    """
    _release(getattr(logging, "_lock", None))
    for reference in list(getattr(logging, "_handlerList", ())):
        handler = reference()
        if handler is not None:
            _release(handler.lock)


def _release(lock: Any) -> None:
    """Release a lock as often as this thread has taken it. Locks of a kind without owners stay."""
    is_owned = getattr(lock, "_is_owned", None)
    while is_owned is not None and is_owned():
        lock.release()


def _place_of_thread(ident: int) -> str:
    return place_at(sys._current_frames().get(ident))
