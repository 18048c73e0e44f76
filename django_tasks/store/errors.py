"""The kinds of database errors, told apart by number and not by exception class.

Drivers and Django put one number into several classes: mysqlclient raises OperationalError for a
character that a column cannot take, which is the class of a broken connection.
"""

from enum import Enum

from django.db import (
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
)

from django_tasks.store.dialects import judge_of

# Raised by Python on the way to the driver, or by us where a count is not what it must be. No
# TypeError: what we give has the right types, and drivers raise it over a connection that is gone.
UNSTORABLE = (DataError, IntegrityError, OverflowError, ValueError, AssertionError)


class Kind(Enum):
    """The cause of an error, and with it the answer to it."""

    WORLD = "world"  # connection, shutdown, failover, read-only, full: new connection, try later
    CONTENTION = "contention"  # deadlock, lock wait, serialization: repeat at once, bounded
    DATA = "data"  # cannot be stored: that row alone ends, the others go on
    REJECTED = "rejected"  # the statement itself, for what it says: no other try goes better
    UNKNOWN = "unknown"  # none of the numbers that are known

    @property
    def is_of_all(self) -> bool:
        """Tell if it is about more than the lane or the rows of this statement."""
        return self in (Kind.WORLD, Kind.CONTENTION, Kind.REJECTED)


def kind_of(error: BaseException, *, using: str) -> Kind:
    """The kind of ``error``, which a statement on ``using`` has raised, or a connection to it."""
    if not isinstance(error, Error):
        return Kind.DATA if isinstance(error, UNSTORABLE) else Kind.UNKNOWN
    dialect = judge_of(using)
    cause = error.__cause__ or error
    if dialect.is_contention(error):
        return Kind.CONTENTION
    if dialect.is_of_data(cause):
        return Kind.DATA
    # Without a cause it is Django's: the server is too old for it, or lacks what we ask of it.
    if dialect.is_of_statement(cause) or (isinstance(error, NotSupportedError) and cause is error):
        return Kind.REJECTED
    # Errors of a connection often have no number: Django's own, and those of a driver that could
    # not even ask the server.
    is_of_connection = isinstance(error, InterfaceError | OperationalError)
    if dialect.is_of_world(cause) or (is_of_connection and not dialect.number(cause)):
        return Kind.WORLD
    return Kind.DATA if isinstance(error, UNSTORABLE) else Kind.UNKNOWN


def was_cut_off(error: BaseException, *, using: str) -> bool:
    """Tell if the server has ended the statement because it took longer than its bound.

    Such an error is the world's. But a statement that is always too long for its bound is none that
    waiting helps: half as many rows may fit.
    """
    return isinstance(error, Error) and judge_of(using).was_cut_off(error.__cause__ or error)


def is_refusal(error: Exception, *, using: str) -> bool:
    """Tell if an error may be the database's and not the handler's.

    Of PostgreSQL's InternalError only a part is: a transaction that has become read-only is, by a
    switchover; one that an error has broken which the handler has caught is not.
    """
    if isinstance(error, InternalError):
        return kind_of(error, using=using) is Kind.WORLD
    return isinstance(error, OperationalError | InterfaceError)
