"""Cuts a connection before or after one chosen SQL statement.

The cut is what a broken network is to the caller: the statement was or was not carried out, and
all that it gets is an OperationalError. The server sees its client vanish.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import Error, OperationalError, connections

BEFORE, AFTER = "before", "after"


class Cut(OperationalError):
    """The connection broke."""


class Statements:
    """Counts the statements of a connection, and cuts it at one of them."""

    def __init__(self, using: str, number: int = 0, side: str = BEFORE) -> None:
        self._using = using
        self._number = number
        self._side = side
        self.count = 0

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        self.count += 1
        if self.count != self._number:
            return execute(sql, params, many, context)
        if self._side == AFTER:
            execute(sql, params, many, context)
        self._cut()
        raise Cut(f"the connection broke {self._side} statement {self.count}")

    def commit(self, commit: Callable[[], None]) -> None:
        """COMMIT is a statement too, although Django sends it past the wrappers."""
        self.count += 1
        if self.count != self._number:
            commit()
            return
        if self._side == AFTER:
            commit()
        self._cut()
        raise Cut(f"the connection broke {self._side} COMMIT")

    def _cut(self) -> None:
        """Have the server roll back whatever it had not committed."""
        connection: Any = connections[self._using]
        if connection.vendor == "sqlite":
            # A file that is closed under an open cursor stays locked.
            connection.connection.rollback()
        else:
            # The socket, and not the connection: the driver must find out by itself.
            with socket.socket(fileno=os.dup(connection.connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)


@contextmanager
def counted(number: int = 0, side: str = BEFORE, using: str = "default") -> Iterator[Statements]:
    """Count the statements of the block, and cut the connection at the given one."""
    connection: Any = connections[using]
    connection.ensure_connection()
    statements = Statements(using, number, side)
    commit = connection._commit
    connection._commit = lambda: statements.commit(commit)
    try:
        with connection.execute_wrapper(statements):
            yield statements
    finally:
        del connection._commit
        if number:
            with suppress(Error):  # it is broken, and MySQLdb says so
                connection.close()
