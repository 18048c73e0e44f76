"""Statements in the transaction of a test, as if each committed by itself.

In production a handler that is not ``atomic`` begins without a transaction. A statement that fails
takes nothing with it, all that was done before it stands, and a callback of ``on_commit`` comes at
once, or at the end of the handler's own block. In the transaction of a ``TestCase`` PostgreSQL
would refuse all that follows an error, so would Django after a failed ``save()``, and callbacks
would never come.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from logging import getLogger
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

# Django's own, for callbacks that are ``robust``.
_django = getLogger("django.db.backends.base")
_SAVEPOINT = "django_tasks_statement"
# Those of Django's blocks, at their ends and at all.
_ENDS = ("RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")
BLOCK_STATEMENTS = ("SAVEPOINT", *_ENDS)


class Autocommit:
    """For this thread's connections that are in a transaction when it is entered."""

    def __init__(self) -> None:
        self._manners: list[_Manners] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """A block of it. Callbacks that have not come by its end are forgotten: see ``flush``."""
        opened = connections.all(initialized_only=True)
        self._manners = [_Manners(each) for each in opened if each.in_atomic_block]
        with ExitStack() as stack:
            for manners in self._manners:
                stack.enter_context(manners.kept())
            try:
                yield
            finally:
                self._manners = []

    def flush(self) -> None:
        """Call what blocks that have ended have left for their commit. Exceptions pass."""
        for manners in self._manners:
            manners.flush()

    def is_outside_blocks(self, connection: BaseDatabaseWrapper) -> bool:
        """Tell if a handler is in none of its own blocks."""
        of_it = [each for each in self._manners if each.connection is connection]
        return of_it[0].is_at_base() if of_it else not connection.in_atomic_block


class _Manners:
    """Those of one connection."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection: Any = connection
        self._depth = len(connection.savepoint_ids)
        # Elsewhere an error harms its own statement alone.
        self._is_fragile = connection.vendor == "postgresql"
        self._is_flushing = False

    @contextmanager
    def kept(self) -> Iterator[None]:
        connection = self.connection
        kind: Any = type(connection)
        callbacks, ids = connection.run_on_commit, connection.savepoint_ids
        connection.run_on_commit, connection.savepoint_ids = [], _Ids(self, ids)
        connection.on_commit = self._on_commit
        connection.django_tasks_manners = self
        connection.__class__ = _unmarked(kind)
        try:
            with connection.execute_wrapper(self._execute):
                yield
        finally:
            connection.__class__ = kind
            del connection.on_commit, connection.django_tasks_manners
            connection.run_on_commit, connection.savepoint_ids = callbacks, ids

    def is_at_base(self) -> bool:
        return len(self.connection.savepoint_ids) == self._depth

    def flush(self) -> None:
        connection = self.connection
        if self._is_flushing or not self.is_at_base():
            return
        self._is_flushing = True
        try:
            while connection.run_on_commit:  # another list after each rollback
                _, call, is_robust = connection.run_on_commit.pop(0)
                _called(call, is_robust)
        finally:
            self._is_flushing = False

    def _on_commit(self, func: Callable[[], Any], robust: bool = False) -> None:
        type(self.connection).on_commit(self.connection, func, robust)
        self.flush()

    def _execute(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        """A wrapper as Django's ``execute_wrapper`` takes it."""
        # At its end a block has left already: its callbacks come later, or never.
        if not self.is_at_base() or sql.startswith(_ENDS):
            return execute(sql, params, many, context)
        self.flush()  # a block that has ended before this statement has committed
        if not self._is_fragile or sql.startswith(BLOCK_STATEMENTS):
            return execute(sql, params, many, context)
        self._own(f"SAVEPOINT {_SAVEPOINT}")
        try:
            return execute(sql, params, many, context)
        except Error:
            self._own(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            raise
        finally:
            self._own(f"RELEASE SAVEPOINT {_SAVEPOINT}")

    def _own(self, statement: str) -> None:
        """Send a statement past Django: other wrappers would take it for the handler's."""
        with self.connection.connection.cursor() as cursor:
            cursor.execute(statement)


class _Ids(list[Any]):
    """The savepoints of a connection. The outermost block of a handler has one, also where Django
    needs none for a part of a transaction: it is a transaction itself.
    """

    def __init__(self, manners: _Manners, ids: list[Any]) -> None:
        super().__init__(ids)
        self._manners = manners

    def append(self, sid: Any) -> None:
        if sid is None and self._manners.is_at_base():
            sid = self._manners.connection.savepoint()
        super().append(sid)


@cache
def _unmarked(kind: Any) -> Any:
    """A kind of connection that is never marked for a rollback outside a block of the handler.

    Where no transaction is open there is nothing to roll back. Django sets the mark as an attribute
    in several places, and reads it in more.
    """

    def read(connection: Any) -> bool:
        return bool(vars(connection)["needs_rollback"])

    def write(connection: Any, is_marked: bool) -> None:
        manners = vars(connection).get("django_tasks_manners")  # a copy has none
        is_ours = manners is not None and manners.is_at_base()
        vars(connection)["needs_rollback"] = is_marked and not is_ours

    return type(kind.__name__, (kind,), {"needs_rollback": property(read, write)})


def _called(call: Callable[[], Any], is_robust: bool) -> None:
    if not is_robust:
        call()
        return
    try:
        call()
    except Exception:  # noqa: BLE001 - as Django does
        _django.exception("Error calling %r in on_commit()", call)
