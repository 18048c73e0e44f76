"""Named locks for a project's own sections: at most one process in the cluster is in each.

A lock is a lease in the database. Its holder renews it from a thread of its own, and stops
believing in itself by the host's monotonic clock before anybody else can take it. No lease can do
more than that: a process that was stopped between ``check()`` and its next write writes all the
same. ``term`` is for those writes: see ``lock``.
"""

import os
import secrets
import threading
from asyncio import sleep as asleep
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from random import uniform
from typing import NamedTuple

from asgiref.sync import sync_to_async

from django_tasks.backoff import Duration
from django_tasks.conf import host_name
from django_tasks.exceptions import (
    LockInTransaction,
    LockLost,
    LockTaken,
)
from django_tasks.host.clocks import pause, ticks
from django_tasks.locks import rows
from django_tasks.locks.held import Held, in_transaction, mend
from django_tasks.locks.rows import LockState
from django_tasks.sentences import sentence as _
from django_tasks.store.aliases import read_alias, write_alias
from django_tasks.values.amounts import seconds_between
from django_tasks.values.keys import LOCK_NAME_LENGTH, check_key, check_lock_name

DEFAULT_LEASE = 30.0
LEASES = 1.0, 86_400.0  # seconds
WAITS = 0.0, 31_536_000.0
# Between two looks at a lock that somebody holds, in seconds; doubled each time.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


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

    Yields a ``Held``, which has the ``attributes`` that its holders have saved. Ask ``is_held``, or
    call ``check()``, before each step that must not be done twice. To be safe even from a process
    that is stopped between the question and the step, store ``term`` with what the section writes
    and guard the write by ``term <= %s``: a holder that was overtaken matches no row.

    Leaving frees the lock, whatever was raised. Where that fails, it is free after its lease. The
    lock is not reentrant: a thread that asks for a name that it holds gets LockTaken. It stays the
    parent's in the child of a fork, which neither renews nor frees it: ``is_held`` is True there
    until the lease has passed that the parent had at the fork.

    Raises LockTaken, which says who holds it, when somebody else does for longer than ``wait``.
    LockLost when the section has ended well but the lock had been lost before: part of its work was
    not protected.
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
        was_held = held._leave()  # in here: the timeout of a run may come just before it begins
    except BaseException:
        held._leave()
        raise
    if not was_held:
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


def get_lock(name: str, *, using: str | None = None) -> LockState | None:
    """The lock of a name as it is now, by the database's clock; None if nobody ever took it.

    Raises TaskValueError or TaskTypeError for a bad name, UnknownDatabase for a bad alias.
    """
    return rows.state(check_key("name", name, LOCK_NAME_LENGTH), using=read_alias(using))


aget_lock = sync_to_async(get_lock)


# Taking


def _taken_in_time(wish: Wish) -> Held:
    if held := _taken(wish):
        return held
    for seconds in _pauses(wish.wait):
        pause(seconds)
        if held := _taken(wish):
            return held
    raise _still_taken(wish)


async def _ataken_in_time(wish: Wish) -> Held:
    if held := await _ataken(wish):
        return held
    for seconds in _pauses(wish.wait):
        await asleep(seconds)
        if held := await _ataken(wish):
            return held
    raise await sync_to_async(_still_taken)(wish)


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
    _refuse_transaction(wish)
    mend(wish.using)
    holder = f"{host_name()}:{os.getpid()}:{secrets.token_hex(8)}"[-200:]
    asked = ticks()
    hold = rows.take(wish.name, holder, wish.lease, using=wish.using)
    if hold is None:
        return None
    try:
        attributes = rows.attributes_of(hold, using=wish.using)
    except BaseException:
        # Nobody would free it before its lease has passed.
        with suppress(Exception):
            rows.free(hold, using=wish.using)
        raise
    return Held(hold, wish.lease, asked, wish.using, attributes)


def _pauses(wait: float) -> Iterator[float]:
    end = ticks() + wait
    pause = FIRST_PAUSE
    while (left := end - ticks()) > 0:
        yield min(left, uniform(0.5, 1.0) * pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _refuse_transaction(wish: Wish) -> None:
    if in_transaction(wish.using):
        raise LockInTransaction(
            _(
                "the lock %(name)r cannot be taken inside a transaction on %(using)r: "
                "take it first, and begin the transaction while you hold it",
                name=wish.name,
                using=wish.using,
            )
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


# Words and wishes


def _still_taken(wish: Wish) -> LockTaken:
    message = _("somebody else holds the lock %(name)r", name=wish.name)
    if wish.wait:
        message = _(
            "somebody else holds the lock %(name)r for %(wait)g s", name=wish.name, wait=wish.wait
        )
    state = None
    with suppress(Exception):  # a database that has just gone hides no refusal
        state = rows.state(wish.name, using=wish.using)
    if state is None or state.until is None:
        return LockTaken(message, wish.name)
    until = f"{state.until:%Y-%m-%d %H:%M:%S} UTC"
    message = _(
        "%(message)s: %(holder)s, term %(term)s, until %(until)s unless it is renewed",
        message=message,
        holder=state.holder,
        term=state.term,
        until=until,
    )
    return LockTaken(message, **state._asdict())


def _lost_before_its_end(held: Held) -> LockLost:
    return LockLost(
        _(
            "the lock %(name)r (term %(term)s) was lost before its section ended: "
            "what it did last was not protected",
            name=held.name,
            term=held.term,
        )
    )


def _checked(name: str, lease: Duration, wait: Duration | None, using: str | None) -> Wish:
    return Wish(
        check_lock_name(name),
        seconds_between("lease", lease, *LEASES),
        0.0 if wait is None else seconds_between("wait", wait, *WAITS),
        write_alias(using),
    )
