"""An exception that one thread raises in another, and sections that it does not come into.

Python has one way to end what a thread does from outside: ``PyThreadState_SetAsyncExc`` leaves an
exception with the thread, which meets it between two steps of its Python code, any two. (A thread
that waits in C meets it when it comes back.) So it must not be left with a thread that has gone on
to something else, and each thread needs places where it cannot come.
"""

import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from multiprocessing.process import BaseProcess
from subprocess import Popen
from threading import Thread, get_ident, local
from typing import Any, ParamSpec, TypeVar

from django_tasks.host import forks
from django_tasks.host.clocks import pause

P = ParamSpec("P")
R = TypeVar("R")

# How long a thread waits, again and again, for another one that is between two lines.
PAUSE_SECONDS = 0.001

# Modules that have hooks for forks, or may have some.
_WITH_HOOKS = "concurrent.futures.thread", "logging", "multiprocessing.util", "random"

_NOTHING = object()
_OWN = object()


class _Thread(local):
    """The interrupt that may come to a thread.

    While it forks: ``is_fork_guarded``, once none can come, and the one that was ``kept`` for that.
    """

    interrupt: "Interrupt | None" = None
    is_fork_guarded: bool = False
    kept: "Interrupt | None" = None


_thread = _Thread()


class Interrupt:
    """Raises ``kind``, once, in the thread that makes it and calls ``run``.

    Two threads want it: another one, to ``fire`` it, and its own, to be over before or to keep it
    away for a while. ``dict.setdefault`` is atomic, so the first one has it and both know who has.
    No lock: the exception may come within whatever its own thread does, and would leave it locked.
    """

    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind
        self._ident = get_ident()
        # The one that has it: ``_OWN`` for its own thread. Empty: nobody yet.
        self._has: dict[int, object] = {}
        self._is_raised = False
        self._is_wanted = False

    @property
    def has_fired(self) -> bool:
        """Tell if the exception has been left with the thread, wherever it has met it."""
        return self._is_raised

    # For another thread

    def fire(self) -> bool:
        """Raise the exception. False if it may not come now: it is over, or kept away.

        Nor while the thread starts another one, or a process. Race: it begins to when it has just
        been looked at. That is as it would be without the look, and a thousand times as rare.
        """
        if _is_starting(self._ident):
            return False
        mine = object()
        if self._has.setdefault(0, mine) is not mine:
            self._is_wanted = True
            return False
        try:
            _leave_with(self._ident, self._kind)
        finally:
            self._is_raised = True  # its own thread waits for this
        return True

    # For its own thread

    def run(
        self, begin: Callable[[], None], function: Callable[[Any], Any], argument: Any
    ) -> tuple[Any, BaseException | None]:
        """Call ``function``; its answer, or what it has raised. Nothing comes after the return.

        ``begin`` makes this known to those who fire it. It comes but once, so the outer ``try``
        needs no third one. Race: it comes when the function has just ended. Before the answer is
        kept, the function counts as interrupted; afterwards, the answer stands.
        """
        answer: Any = _NOTHING
        error: BaseException | None = None
        try:
            try:
                _thread.interrupt = self
                begin()
                answer = function(argument)
            except BaseException as raised:  # noqa: BLE001 - the caller's to judge
                error = raised
            self._end()
        except BaseException as late:  # noqa: BLE001 - it came into the lines above
            if answer is _NOTHING and error is None:
                error = late
            self._end()  # of another one's exception: ours may still come, and then leaves here
        _thread.interrupt = None
        return None if answer is _NOTHING else answer, error

    def _end(self) -> None:
        """Have nothing come any more.

        Race: the other thread has it, and is about to raise. Then that is waited for, and what has
        been left with this thread is taken away, unless it comes first, here, which is as well.
        """
        if self._has.setdefault(0, _OWN) is not _OWN:
            self._await()
            _take_back(self._ident)

    def _await(self) -> None:
        while not self._is_raised:
            pause(PAUSE_SECONDS)

    @property
    def is_kept_away(self) -> bool:
        return self._has.get(0) is _OWN

    def keep_away(self) -> None:
        """Let it not come until ``let_come``. If it was fired, it comes in here or has come.

        So what follows is not done; where Python swallows exceptions, ``come_again`` is for that.
        """
        if self._has.setdefault(0, _OWN) is not _OWN:
            self._await()

    def let_come(self) -> None:
        if self.is_kept_away:
            del self._has[0]

    def let_come_now(self) -> None:
        """The same; raise the exception here if somebody has tried to fire it meanwhile."""
        if self._is_wanted and self.is_kept_away:
            self._is_raised = True
            self._has[0] = object()
            raise self._kind
        self.let_come()

    def come_again(self) -> None:
        """Let it be fired once more, if it was fired and then swallowed by Python.

        Race: the other thread has left it here and not said so yet. Then that is waited for.
        """
        if self._has and not self.is_kept_away:
            self._await()
            self._is_raised = False
            del self._has[0]

    def forked(self) -> None:
        """In the child of a fork: the thread that was about to raise does not run here."""
        if not self._is_raised:
            self._has[0] = _OWN


@forks.in_child
def _forked() -> None:
    _thread.is_fork_guarded, _thread.kept = False, None
    if _thread.interrupt is not None:
        _thread.interrupt.forked()


@cache
def guard_forks() -> None:
    """Keep the interrupt of a thread out of what runs when it forks. Call before the first one.

    Of a fork's hooks several take locks in the first half and release them in the second: those of
    ``logging`` up to Python 3.12 and of ``concurrent.futures``. Python swallows what comes into a
    hook, so a lock of ``logging`` stayed locked, the next fork waited for it with the lock of
    ``concurrent.futures`` in hand, and all threads for these two. Ours are registered late, for
    then they are the first ones before a fork and the last ones after it.
    """
    for name in _WITH_HOOKS:
        import_module(name)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)


def _before_fork() -> None:
    interrupt = _thread.interrupt
    if interrupt is None:
        return
    if not interrupt.is_kept_away:
        interrupt.keep_away()
        _thread.kept = interrupt if interrupt.is_kept_away else None
    _thread.is_fork_guarded = True


def _after_fork() -> None:
    """Let it come again.

    Race: it comes at the very beginning of the hook before, and is swallowed there. Then it is to
    be fired once more. The last statement is the one after which it may come: Python looks for it
    at calls and at jumps back, and the next one is the caller's.
    """
    interrupt, kept, was_guarded = _thread.interrupt, _thread.kept, _thread.is_fork_guarded
    _thread.kept, _thread.is_fork_guarded = None, False
    if kept is not None:
        del kept._has[0]
    elif interrupt is not None and not was_guarded:
        interrupt.come_again()


def uninterrupted(function: Callable[P, R]) -> Callable[P, R]:
    """Keep the interrupt of a thread away until ``function`` has returned; a decorator.

    For what has locks, or state in two steps, that other threads need.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return _without_it(Interrupt.let_come, function, *args, **kwargs)

    return call


def whole(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call ``function``; an interrupt of this thread that was wanted meanwhile comes afterwards."""
    return _without_it(Interrupt.let_come_now, function, *args, **kwargs)


def _without_it(
    afterwards: Callable[[Interrupt], None],
    function: Callable[P, R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    interrupt = _thread.interrupt
    if interrupt is None or interrupt.is_kept_away:
        return function(*args, **kwargs)
    interrupt.keep_away()
    try:
        return function(*args, **kwargs)
    finally:
        afterwards(interrupt)


@cache
def _starting() -> frozenset[Any]:
    starts = Thread.start, BaseProcess.start, Popen.__init__
    return frozenset(getattr(start, "__code__", None) for start in starts)


def _is_starting(ident: int) -> bool:
    """Tell if a thread is starting another one, or a process.

    Up to Python 3.11 a new thread has the number of the one that starts it until it runs. So the
    exception would be left with that, which would end before it says that it runs; and the other
    one would wait for ever to hear it. A half started process is nobody's.
    """
    frame, starting = sys._current_frames().get(ident), _starting()
    while frame is not None and frame.f_code not in starting:
        frame = frame.f_back
    return frame is not None


def are_possible() -> bool:
    """Tell if this Python has interrupts: not one without the GIL, which the races rest on."""
    return _set_async_exc() is not None


@cache
def _set_async_exc() -> Callable[[int, int], int] | None:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        import ctypes

        # A function of our own: somebody may have given other types to the shared one. It keeps the
        # GIL.
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)
        return prototype(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
    except (ImportError, AttributeError):
        return None


def _leave_with(ident: int, kind: type[BaseException]) -> None:
    """Leave an exception with a thread, in place of one that it has not met yet."""
    function = _set_async_exc()
    if function is not None:
        function(ident, id(kind))


class _TakenBack(BaseException):
    """The exception that takes the place of another one."""


def _take_back(ident: int) -> None:
    """Have this thread meet nothing any more that was left with it.

    Not by NULL in its place: Python 3.11 would look for an exception at each call of each thread,
    for good, and would hang where calls are traced.
    """
    try:
        _leave_with(ident, _TakenBack)
        while True:  # it is met here at the latest
            pass
    except _TakenBack:
        return
