"""Threads, events, conditions, locks and sleep in simulated time, as ``threading`` has them."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import Empty
from types import TracebackType
from typing import Any

from tests.simulated_cluster import stage
from tests.simulated_cluster.hosts import NOBODY, current
from tests.simulated_cluster.scheduler import Actor

# How long a thread takes to get going once it was woken, at the most.
LONGEST_WAKE = 0.0005


def sleep(seconds: float) -> None:
    """Sleep; an exception that was left with the thread comes when it wakes up."""
    stage.scheduler.sleep(max(0.0, seconds))
    current().meet()


def get_ident() -> int:
    """The number of the present thread."""
    return current().number


def _until(timeout: float | None) -> float | None:
    return None if timeout is None else stage.scheduler.now + max(0.0, timeout)


def _wake(actor: Actor) -> None:
    stage.scheduler.wake(actor, stage.choices.between(0.0, LONGEST_WAKE))


class Thread:
    """A thread of the present process."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self.name = name or "thread"
        self.daemon = daemon
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self._actor: Actor | None = None

    @property
    def ident(self) -> int | None:
        return self._actor.number if self._actor else None

    def start(self) -> None:
        self._actor = stage.scheduler.spawn(self.name, current().host, self.run)

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.is_over

    def join(self, timeout: float | None = None) -> None:
        until = _until(timeout)
        while self._actor is not None and self.is_alive():
            self._actor.waiters.append(current())
            if not stage.scheduler.park(until):
                return


class Event:
    """An event, whose waiters go on in an order of the seed."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[Actor] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiters, self._waiters = self._waiters, []
        for actor in waiters:
            _wake(actor)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            actor = current()
            self._waiters.append(actor)
            stage.scheduler.park(_until(timeout))
            if actor in self._waiters:
                self._waiters.remove(actor)
            actor.meet()
        return self._is_set


class Timer:
    """A call that comes later, unless it is cancelled before."""

    def __init__(self, interval: float, function: Callable[[], object]) -> None:
        self.daemon = False
        self._interval, self._function = interval, function
        self._cancelled = Event()

    def start(self) -> None:
        Thread(target=self._main, name="timer").start()

    def cancel(self) -> None:
        self._cancelled.set()

    def _main(self) -> None:
        if not self._cancelled.wait(self._interval):
            self._function()


class SimpleQueue:
    """A queue of news that say nothing but that there are some."""

    def __init__(self) -> None:
        self._news = Event()

    def put(self, _: None) -> None:
        self._news.set()

    def get(self, timeout: float | None = None) -> None:
        if not self._news.wait(timeout):
            raise Empty
        self._news.clear()


class Lock:
    """A lock. It is free mostly: turns are given away at waits only."""

    def __init__(self) -> None:
        self._owner: Actor | None = None
        self._waiters: deque[Actor] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        until = _until(timeout) if timeout >= 0 else None
        while self._owner is not None:
            if not blocking:
                return False
            self._waiters.append(current())
            if not stage.scheduler.park(until):
                self._waiters.remove(current())
                return False
        self._owner = current()
        return True

    def release(self) -> None:
        self._owner = None
        if self._waiters:
            _wake(self._waiters.popleft())

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Condition(Lock):
    """A condition with a lock of its own."""

    def __init__(self, lock: None = None) -> None:
        super().__init__()
        self._sleepers: list[Actor] = []

    def wait(self, timeout: float | None = None) -> bool:
        actor = current()
        self._sleepers.append(actor)
        self.release()
        was_woken = stage.scheduler.park(_until(timeout))
        if actor in self._sleepers:
            self._sleepers.remove(actor)
        self.acquire()
        return was_woken

    def notify(self, n: int = 1) -> None:
        for actor in self._sleepers[:n]:
            _wake(actor)
        del self._sleepers[:n]

    def notify_all(self) -> None:
        self.notify(len(self._sleepers))


class Local:
    """``threading.local`` for actors: each has attributes of its own."""

    def __init__(self, **defaults: Any) -> None:
        object.__setattr__(self, "_defaults", defaults)

    def _own(self) -> dict[str, Any]:
        actor = stage.scheduler.current
        own: dict[str, Any] = (actor.own if actor else NOBODY).setdefault(id(self), {})
        return own

    def __getattr__(self, name: str) -> Any:
        try:
            return self._own()[name]
        except KeyError:
            pass
        try:
            return self._defaults[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._own()[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self._own()[name]
        except KeyError:
            raise AttributeError(name) from None


class Current:
    """The little of a thread that a log line asks for."""

    def __init__(self, actor: Actor) -> None:
        self.ident = actor.number
        self.name = actor.name


def current_thread() -> Current:
    return Current(current())
