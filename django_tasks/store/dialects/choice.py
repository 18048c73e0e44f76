"""The dialect of a connection."""

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks.sentences import sentence as _
from django_tasks.store.dialects.base import Dialect
from django_tasks.store.dialects.mysql import MariaDB, MySQL
from django_tasks.store.dialects.postgresql import PostgreSQL
from django_tasks.store.dialects.sqlite import SQLite

# The name under which a connection keeps its dialect.
KEPT = "_django_tasks_dialect"


def dialect_of(using: str) -> Dialect:
    """The dialect of a database alias, bound to this thread's connection, and kept with it."""
    connection = connections[using]
    kept: Dialect | None = vars(connection).get(KEPT)
    if kept is None:
        kept = _kind(connection)(connection)
        setattr(connection, KEPT, kept)
    return kept


def judge_of(using: str) -> Dialect:
    """A dialect to tell errors apart with. Nothing is asked of the database, which may be down."""
    connection = connections[using]
    kept: Dialect | None = vars(connection).get(KEPT)
    return kept or _family(connection)(connection)


def _kind(connection: BaseDatabaseWrapper) -> type[Dialect]:
    family = _family(connection)
    # To know which, Django connects.
    is_mariadb = family is MySQL and connection.mysql_is_mariadb  # type: ignore[attr-defined]
    return MariaDB if is_mariadb else family


def _family(connection: BaseDatabaseWrapper) -> type[Dialect]:
    """MySQL stands for MariaDB as well: their errors have the same numbers."""
    if connection.vendor == "mysql":
        return MySQL
    if connection.vendor == "postgresql":
        return PostgreSQL
    if connection.vendor == "sqlite":
        return SQLite
    raise NotImplementedError(
        _("django_tasks does not run on %(vendor)s", vendor=connection.vendor)
    )


def has_one_writer(using: str) -> bool:
    """Tell if transactions that write wait for each other there, whatever they write. Nothing is
    asked of the database, which may be down.
    """
    return connections[using].vendor == "sqlite"
