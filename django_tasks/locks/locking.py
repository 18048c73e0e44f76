"""Named locks for a project's own sections: at most one process in the cluster is in each.

A lock is a lease in the database. Its holder renews it from a thread of its own, and stops
believing in itself by the host's monotonic clock before anybody else can take it. No lease can do
more than that: a process that was stopped between ``check()`` and its next write writes all the
same. ``term`` is for those writes: see ``lock``.
"""

import os
import secrets
import socket
import threading
from asyncio import sleep as asleep
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from random import uniform
from time import sleep
from typing import NamedTuple
from weakref import WeakSet

from asgiref.sync import sync_to_async
from django.db import connections

from django_tasks import logs
from django_tasks.backoff import Duration, seconds
from django_tasks.exceptions import (
    LockInTransaction,
    LockLost,
    LockTaken,
    TaskTypeError,
    TaskValueError,
)
from django_tasks.host import forks
from django_tasks.host.clocks import ticks
from django_tasks.locks import rows
from django_tasks.locks.rows import Hold
from django_tasks.store.aliases import write_alias
from django_tasks.store.connection import close_connections
from django_tasks.values.keys import LOCK_NAME_LENGTH, check_key

DEFAULT_LEASE = 30.0
LEASES = 1.0, 86_400.0  # seconds
WAITS = 0.0, 31_536_000.0
# Between two looks at a lock that somebody holds, in seconds; doubled each time.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
# How long the end of a section that has lost its lock waits for the thread that renewed it.
SHORTEST_JOIN = 1.0


class Held:
    """A lock that this process has taken. For any thread; nothing here asks the database.

    ``name``; ``term``, a whole number, one more each time anybody takes this lock.
    """

    def __init__(self, hold: Hold, lease: float, asked: float, using: str) -> None:
        """``asked`` is the monotonic time *before* the database was asked for the lock."""
        self.name = hold.name
        self.term = hold.term
        self._hold = hold
        self._lease = lease
        self._using = using
        self._mutex = threading.Lock()
        self._end = asked + lease
        self._over = False
        self._abandoned = False
        self._is_parents = False
        self._leaving = threading.Event()
        self._renewing = threading.Thread(
            target=self._main, name=f"django_tasks-lock-{hold.name}", daemon=True
        )
        _held.add(self)

    def __repr__(self) -> str:
        return f"<Held {self.name!r} term={self.term}>"

    @property
    def is_held(self) -> bool:
        """True while the lock is ours. Once False, it stays so.

        False as soon as the lease has passed on the host's monotonic clock since the last renewal
        that succeeded was *sent*: nobody else can have the lock before.
        """
        return self._seconds_left() > 0

    def check(self) -> None:
        """Raise LockLost unless the lock is still ours."""
        if not self.is_held:
            raise LockLost(
                f"the lock {self.name!r} (term {self.term}) is not held any more:"
                " somebody else may have it"
            )

    # What this process believes

    def _seconds_left(self) -> float:
        with self._mutex:
            left = self._end - ticks()
            # For good: a section that was told so once must not be told otherwise later.
            self._over = self._over or left <= 0
            return 0.0 if self._over else left

    def _was_renewed(self, asked: float) -> None:
        if self._seconds_left() > 0:
            self._end = asked + self._lease

    def _ends(self) -> None:
        with self._mutex:
            self._over = True

    # The thread that renews it

    def _keep(self) -> None:
        self._renewing.start()

    def _main(self) -> None:
        pause = self._lease / 3
        try:
            while not self._leaving.wait(pause) and self.is_held:
                pause = self._renew()
            if not self._leaving.is_set():
                logs.lock_lost(self.name, self.term)
            if self._abandoned:
                _freed(self._hold, self._using)
        finally:
            close_connections()

    def _renew(self) -> float:
        """Try it once; returns the seconds until the next try."""
        try:
            asked = ticks()
            renewed = rows.renew(self._hold, self._lease, using=self._using)
        except Exception as error:  # noqa: BLE001 - Django's errors, and the driver's own
            logs.lock_not_renewed(self.name, error)
            with suppress(Exception):
                # Whatever a ping would say: a new connection may lead to another server.
                close_connections()
            return self._lease / 12
        if renewed:
            self._was_renewed(asked)
        else:
            self._ends()
        return self._lease / 3

    # Its end

    def _leave(self) -> bool:
        """Free the lock; whether it was held to the end. Raises nothing."""
        if self._is_parents:
            return self.is_held
        left = self._seconds_left()
        self._ends()
        self._leaving.set()
        if self._renewing.ident is not None:
            # A renewal that hangs is left alone: after the lock was freed it matches nothing.
            self._renewing.join(max(left, SHORTEST_JOIN))
        # What was lost needs no freeing: its lease has passed, or somebody else has it.
        return left > 0 and _freed(self._hold, self._using)

    def _abandon(self) -> None:
        """Have the lock freed by the thread that renews it, on its own connection. Does not wait.

        For a coroutine that may not wait. If ``_leave`` is under way elsewhere, both free it: the
        second one matches nothing.
        """
        if self._is_parents:
            return
        self._ends()
        self._abandoned = True  # before the thread is told to look
        self._leaving.set()
        if self._renewing.ident is None:
            self._renewing.start()

    def _leave_to_parent(self) -> None:
        """In the child of a fork: the parent goes on holding the lock, and frees it.

        Race: the fork came while the thread that renews it had the mutex. It does not run here.
        """
        self._mutex = threading.Lock()
        self._is_parents = True


# Those of this process that something still refers to.
_held: WeakSet[Held] = WeakSet()


@forks.in_child
def _leave_to_parent() -> None:
    for held in list(_held):
        held._leave_to_parent()


class Wish(NamedTuple):
    """The wishes of a caller, checked; durations are seconds."""

    name: str
    lease: float
    wait: float
    using: str


@contextmanager
def lock(
    name: str,
    *,
    lease: Duration = DEFAULT_LEASE,
    wait: Duration | None = None,
    using: str | None = None,
) -> Iterator[Held]:
    """Hold the lock ``name`` for the time of the ``with``; in the whole cluster, one at a time.

    ``lease`` (a timedelta or seconds, 1 s to a day) is how long the lock stays taken when its
    holder dies. A thread with a database connection of its own renews it every third of that, so
    that a section may take as long as it likes; errors of the database are survived until the
    lease has passed. ``wait`` (a timedelta or seconds) is how long to wait for somebody else to
    leave; None, like 0, asks once. Who waits looks again at most every second, in no order.

    Yields a ``Held``: ask ``is_held``, or call ``check()``, before each step that must not be done
    twice. To be safe even from a process that is stopped between the question and the step, store
    ``term`` with what the section writes and guard the write by ``term <= %s``: a holder that was
    overtaken matches no row.

    Leaving frees the lock, whatever was raised. Where that fails, it is free after its lease. The
    lock is not reentrant: the same name twice, in one thread too, waits for itself. It stays the
    parent's in the child of a fork, which neither renews nor frees it: ``is_held`` is True there
    until the lease has passed that the parent had at the fork.

    Raises LockTaken when somebody else holds it for longer than ``wait``. LockLost when the
    section has ended well but the lock had been lost before: part of its work was not protected.
    LockInTransaction inside a transaction on ``using`` (default: what the router says for writes):
    others would wait for its row until the commit, and would see the section's work only after the
    lock was freed. TaskValueError or TaskTypeError for a bad name (1 to 100 characters), lease or
    wait; UnknownDatabase for a bad alias. Database errors while it is being taken pass through: if
    the answer was lost, the lock may be taken by nobody for one lease.
    """
    wish = _checked(name, lease, wait, using)
    held = _taken_in_time(wish)
    try:
        held._keep()
        yield held
    except BaseException:
        held._leave()
        raise
    if not held._leave():
        raise _lost_before_its_end(held)


@asynccontextmanager
async def alock(
    name: str,
    *,
    lease: Duration = DEFAULT_LEASE,
    wait: Duration | None = None,
    using: str | None = None,
) -> AsyncIterator[Held]:
    """``lock`` for ``async with``: the same arguments, promises and errors.

    A coroutine that is cancelled, wherever it is, does not keep the lock: it is freed soon after.
    """
    wish = _checked(name, lease, wait, using)
    held = await _ataken_in_time(wish)
    try:
        held._keep()
        yield held
    except GeneratorExit:  # its event loop has gone: there is nothing to await any more
        held._abandon()
        raise
    except BaseException:
        await _aleft(held)
        raise
    if not await _aleft(held):
        raise _lost_before_its_end(held)


# Taking


def _taken_in_time(wish: Wish) -> Held:
    if held := _taken(wish):
        return held
    for pause in _pauses(wish.wait):
        sleep(pause)
        if held := _taken(wish):
            return held
    raise _still_taken(wish)


async def _ataken_in_time(wish: Wish) -> Held:
    if held := await _ataken(wish):
        return held
    for pause in _pauses(wish.wait):
        await asleep(pause)
        if held := await _ataken(wish):
            return held
    raise _still_taken(wish)


async def _ataken(wish: Wish) -> Held | None:
    taking = Taking(wish)
    try:
        return await sync_to_async(taking.take)()
    except BaseException:  # cancelled, as a rule
        taking.give_up()
        raise


class Taking:
    """One try in a thread, for a coroutine that may be cancelled meanwhile.

    A thread cannot be cancelled. Race: the coroutine gives up while the database answers. The later
    one of the two frees the lock.
    """

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._mutex = threading.Lock()
        self._is_unwanted = False
        self._held: Held | None = None

    def take(self) -> Held | None:
        """Ask once, in the thread."""
        held = _taken(self._wish)
        with self._mutex:
            self._held = held
            if not self._is_unwanted:
                return held
        if held is not None:
            held._leave()
        return None

    def give_up(self) -> None:
        """Leave the answer alone: nobody is there any more to hold the lock."""
        with self._mutex:
            self._is_unwanted = True
            held = self._held
        if held is not None:
            held._abandon()


def _taken(wish: Wish) -> Held | None:
    """Ask once."""
    _refuse_transaction(wish)
    _mend(wish.using)
    holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"[-200:]
    asked = ticks()
    hold = rows.take(wish.name, holder, wish.lease, using=wish.using)
    return Held(hold, wish.lease, asked, wish.using) if hold else None


def _pauses(wait: float) -> Iterator[float]:
    """Seconds before each further try, the last of which comes when ``wait`` is over."""
    end = ticks() + wait
    pause = FIRST_PAUSE
    while (left := end - ticks()) > 0:
        yield min(left, uniform(0.5, 1.0) * pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _refuse_transaction(wish: Wish) -> None:
    connection = connections[wish.using]
    if connection.in_atomic_block or not connection.get_autocommit():
        raise LockInTransaction(
            f"the lock {wish.name!r} cannot be taken inside a transaction on {wish.using!r}:"
            " take it first, and begin the transaction while you hold it"
        )


# Freeing


async def _aleft(held: Held) -> bool:
    """``_leave`` in a thread. The lock is freed also if this coroutine is cancelled meanwhile."""
    try:
        return await sync_to_async(held._leave)()
    except BaseException:
        # The thread may have been too busy to begin, and has forgotten it now.
        held._abandon()
        raise


def _freed(hold: Hold, using: str) -> bool:
    """Free the lock; False if somebody else has it already.

    On the caller's connection, once more if that was broken. Inside a transaction that the caller
    has left open, it is freed with the commit.
    """
    for attempt in range(2):
        try:
            _mend(using)
            # After a lost answer, nothing to free means that the first try has done it.
            return rows.free(hold, using=using) or attempt > 0
        except Exception as error:  # noqa: BLE001 - what the section has raised must not be hidden
            problem = error
    logs.lock_not_freed(hold.name, problem)
    return True


def _mend(using: str) -> None:
    """Close this thread's connection if an error has broken it, as Django does after a request."""
    connection = connections[using]
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()


# Words and wishes


def _still_taken(wish: Wish) -> LockTaken:
    waited = f" for {wish.wait:g} s" if wish.wait else ""
    return LockTaken(f"somebody else holds the lock {wish.name!r}{waited}")


def _lost_before_its_end(held: Held) -> LockLost:
    return LockLost(
        f"the lock {held.name!r} (term {held.term}) was lost before its section ended:"
        " what it did last was not protected"
    )


def _checked(name: str, lease: Duration, wait: Duration | None, using: str | None) -> Wish:
    return Wish(
        check_key("name", name, LOCK_NAME_LENGTH),
        _duration("lease", lease, *LEASES),
        0.0 if wait is None else _duration("wait", wait, *WAITS),
        write_alias(using),
    )


def _duration(field: str, value: Duration, lowest: float, highest: float) -> float:
    try:
        duration = seconds(value)
    except TypeError:
        raise TaskTypeError(field, value, "must be a timedelta or a number of seconds") from None
    except (ValueError, OverflowError):
        duration = -1.0
    if not lowest <= duration <= highest:
        raise TaskValueError(field, value, f"must be from {lowest:g} to {highest:g} seconds")
    return duration
