"""A lock that this process has taken: believed in by the host's clock, renewed by a thread."""

import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from asgiref.sync import sync_to_async
from django.db import connections

from django_tasks import logs, payloads
from django_tasks.exceptions import LockInTransaction, LockLost
from django_tasks.host import forks
from django_tasks.host.clocks import ticks
from django_tasks.host.interrupts import uninterrupted
from django_tasks.locks import rows
from django_tasks.locks.rows import Hold
from django_tasks.sentences import sentence as _
from django_tasks.store.connection import close_connections

# The wait of a section that has lost its lock for the thread that renewed it, in seconds.
SHORTEST_JOIN = 1.0


class Held:
    """A lock that this process has taken. For any thread; nothing here asks the database.

    ``name``; ``term``, a whole number, one more each time anybody takes this lock;
    ``attributes``, a JSON value that its holders hand on to each other: as it was when the lock was
    taken, or as it was saved since; None if nobody has saved one.
    """

    def __init__(
        self, hold: Hold, lease: float, asked: float, using: str, attributes: Any = None
    ) -> None:
        """``asked`` is the monotonic time *before* the database was asked for the lock."""
        self.name = hold.name
        self.term = hold.term
        self.attributes = attributes
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
                _(
                    "the lock %(name)r (term %(term)s) is not held any more: somebody else "
                    "may have it",
                    name=self.name,
                    term=self.term,
                )
            )

    def save(self, attributes: Any) -> None:
        """Store ``attributes`` with the lock at once: LockTaken has them, and the next holder.

        Raises TaskTypeError or TaskValueError for what is no JSON, LockLost if the lock is not held
        any more, LockInTransaction inside a transaction: its row would stay locked, and could not
        be renewed. Errors of the database pass.
        """
        payloads.encoded(attributes, "attributes")
        if in_transaction(self._using):
            raise LockInTransaction(
                _(
                    "the attributes of the lock %(name)r cannot be saved inside a "
                    "transaction on %(using)r: save them before it, or after",
                    name=self.name,
                    using=self._using,
                )
            )
        self.check()
        if not rows.save(self._hold, attributes, using=self._using):
            self._ends()
        self.check()
        self.attributes = attributes

    async def asave(self, attributes: Any) -> None:
        """``save`` for a coroutine."""
        await sync_to_async(self.save)(attributes)

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

    @uninterrupted
    def _keep(self) -> None:
        self._renewing.start()

    def _main(self) -> None:
        pause = self._lease / 3
        try:
            while not self._leaving.wait(pause) and self.is_held:
                pause = self._renew()
            if not self._leaving.is_set():
                logs.lock_lost(self.name, self.term, self._using)
            if self._abandoned:
                _freed(self._hold, self._using)
        finally:
            close_connections()

    def _renew(self) -> float:
        try:
            asked = ticks()
            renewed = rows.renew(self._hold, self._lease, using=self._using)
        except Exception as error:  # noqa: BLE001 - Django's errors, and the driver's own
            logs.lock_not_renewed(self.name, error, self._using)
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

    @uninterrupted
    def _leave(self) -> bool:
        """Free the lock; tell if it was held to the end. Raises nothing."""
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


def _freed(hold: Hold, using: str) -> bool:
    """Free the lock; False if somebody else has it already.

    On the caller's connection, once more if that was broken. Inside a transaction that the caller
    has left open, it is freed with the commit.
    """
    for attempt in range(2):
        try:
            mend(using)
            # After a lost answer, nothing to free means that the first try has done it.
            return rows.free(hold, using=using) or attempt > 0
        except Exception as error:  # noqa: BLE001 - what the section has raised must not be hidden
            problem = error
    logs.lock_not_freed(hold.name, problem, using)
    return True


def in_transaction(using: str) -> bool:
    """Tell if a statement here would wait for a commit that is the caller's."""
    connection = connections[using]
    return connection.in_atomic_block or not connection.get_autocommit()


def mend(using: str) -> None:
    """Close this thread's connection if an error has broken it, as Django does after a request."""
    connection = connections[using]
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()
