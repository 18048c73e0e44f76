"""Transactions of the store: they hold their locks from their first read."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from random import uniform
from typing import Any, NoReturn, ParamSpec, TypeVar

from django.db import DatabaseError, OperationalError, connections, transaction

from django_tasks.host.clocks import pause
from django_tasks.store.dialects import dialect_of, judge_of

FIRST_PAUSE = 0.001  # seconds; doubled ten times: up to a second in all

P = ParamSpec("P")
R = TypeVar("R")


class BlockEnded(OperationalError):
    """An ``atomic()`` block that was none of this transaction's has ended in it: roll it back."""


@contextmanager
def write_transaction(using: str) -> Iterator[None]:
    """``transaction.atomic``, which on SQLite takes the write lock at once.

    A deferred transaction that reads and then writes fails there ("database is locked", 181 of 360
    times measured) however long its time-out is. Inside a caller's transaction it is a savepoint.
    Raises BlockEnded in place of a commit that would leave out what was written.
    """
    connection: Any = connections[using]
    connection.ensure_connection()  # which reads the mode from the settings
    with _beginning(connection), transaction.atomic(using=using), _Whole(connection):
        yield


class _Whole:
    """The inside of a transaction, which ends with all of it or with an error.

    A generator that hangs in an ``atomic()`` ends it where it is collected: in whatever thread, at
    any moment. Django then takes the innermost block of that thread for it, rolls it back, and what
    comes next commits by itself. So there is one more, without a savepoint: it goes in place of the
    transaction, no statement is taken after that, and here it is missed.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        connection = self._connection
        self._blocks, self._depth = [*connection.atomic_blocks], len(connection.savepoint_ids)
        if not connection.in_atomic_block:
            self._refuse(None)
        connection.savepoint_ids.append(None)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        connection = self._connection
        if len(connection.savepoint_ids) > self._depth:
            del connection.savepoint_ids[self._depth]  # and none that the run has left open
        elif not connection.closed_in_transaction:  # else an interrupt has had all forgotten
            connection.atomic_blocks[:] = self._blocks
            connection.needs_rollback = True
            if error is None or isinstance(error, transaction.TransactionManagementError):
                self._refuse(error)

    def _refuse(self, error: BaseException | None) -> NoReturn:
        text = "A generator that hung in an atomic() block was collected in this transaction."
        raise BlockEnded(text) from error


def _beginning(connection: Any) -> AbstractContextManager[None]:
    if connection.in_atomic_block:
        return nullcontext()
    if connection.vendor == "sqlite" and connection.transaction_mode != "IMMEDIATE":
        return _set(connection, "transaction_mode", "IMMEDIATE")
    if connection.vendor == "mysql":
        # Django would send "SET autocommit" before and after: one round trip more. This is the hook
        # by which it begins a transaction on SQLite.
        return _set(
            connection, "_start_transaction_under_autocommit", functools.partial(_begin, connection)
        )
    return nullcontext()


@contextmanager
def _set(connection: Any, name: str, value: Any) -> Iterator[None]:
    had, before = name in vars(connection), vars(connection).get(name)
    try:
        setattr(connection, name, value)  # in here: a timeout may come right afterwards
        yield
    finally:
        if had:
            setattr(connection, name, before)
        else:
            vars(connection).pop(name, None)


def _begin(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("START TRANSACTION")  # BEGIN is a block in the mode ORACLE of MariaDB


@contextmanager
def answered_transaction(using: str) -> Iterator[None]:
    """For a statement that writes and returns rows: on Galera, a transaction.

    When the write of another node gets in the way of such a statement that commits by itself,
    MariaDB 10.11 may send neither the rest of the rows nor an error, and the client waits for
    ever; or, with ``wsrep_retry_autocommit``, the rows of both tries. Here an error comes.
    """
    if dialect_of(using).is_galera and connections[using].get_autocommit():
        with write_transaction(using):
            yield
    else:
        yield


def retried(operation: Callable[P, R]) -> Callable[P, R]:
    """Repeat an operation that takes ``using`` when somebody else was in its way.

    Only where the transaction is ours: inside a caller's, MySQL has rolled back the whole of it
    after a deadlock, and repeating our part alone would silently lose the caller's.
    """

    @functools.wraps(operation)
    def repeating(*args: P.args, **kwargs: P.kwargs) -> R:
        using = str(kwargs["using"])
        for attempt in range(dialect_of(using).contention_retries):
            try:
                return operation(*args, **kwargs)
            except DatabaseError as error:
                if not connections[using].get_autocommit() or not is_contention(using, error):
                    raise
                # Two that met will meet again unless one of them waits a little.
                pause(uniform(0, FIRST_PAUSE * 2**attempt) if attempt else 0)
        return operation(*args, **kwargs)

    return repeating


def is_contention(using: str, error: BaseException) -> bool:
    """Tell if ``error`` only says that somebody else was in the way."""
    return judge_of(using).is_contention(error)
