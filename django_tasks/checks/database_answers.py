"""Checks that ask the databases themselves."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import CheckMessage
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, JSONField

from django_tasks.checks.messages import asks_for_wal, error, in_memory, task_databases, warning
from django_tasks.fields import KeyField
from django_tasks.models import Task
from django_tasks.sentences import sentence as _
from django_tasks.store import tables
from django_tasks.store.connection import trial_session
from django_tasks.store.rejections import session_rejection

CHARSET = "utf8mb4"

if TYPE_CHECKING:
    AnyField = Field[Any, Any]
else:
    AnyField = Field  # subscriptable in the stubs only


def check_connections(
    databases: Iterable[str] | None = None, **kwargs: Any
) -> Iterable[CheckMessage]:
    """E010, E011, W002, W003: the answers of the databases themselves"""
    asked = set(databases or ())
    found: list[CheckMessage] = []
    for alias, connection in task_databases():
        if alias in asked and connection.vendor in _BY_ASKING:
            found += _answers(alias, connection)
    return found


def _answers(alias: str, connection: Any) -> Iterator[CheckMessage]:
    try:
        if rejection := session_rejection(alias):
            yield error("E010", rejection.sentence(alias))
        missing = _missing(alias, connection)
        yield from _BY_ASKING[connection.vendor](alias, connection)
    except Error as failure:
        yield error("E011", tables.words(failure, alias))
        return
    # Commands that change the tables run the checks before: an error would keep them from it.
    if missing and sys.argv[1:2] == ["check"]:
        yield error("E011", tables.sentence(missing, alias))


def _missing(alias: str, connection: BaseDatabaseWrapper) -> list[str]:
    """Missing tables. The question waits for whoever changes one of them: with a bound."""
    if connection.vendor == "sqlite" and in_memory(connection):  # seen by this connection alone
        return tables.missing(connection)
    with trial_session(alias):
        return tables.missing(connections[alias])


def _nothing(alias: str, connection: Any) -> Iterator[CheckMessage]:
    return iter(())


def _journal_mode(alias: str, connection: Any) -> Iterator[CheckMessage]:
    # Where the settings do not even ask for it, that has been said already.
    if in_memory(connection) or not asks_for_wal(connection):
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        (mode,) = cursor.fetchone()
    if mode.lower() != "wal":
        yield warning(
            "W003",
            _(
                "The SQLite database %(alias)r does not use write-ahead logging although "
                "its settings ask for it; its journal mode is %(mode)r.",
                alias=alias,
                mode=mode,
            ),
            _("Its file system may lack what it needs (network file systems do): move the file."),
        )


def _texts(alias: str, connection: Any) -> Iterator[CheckMessage]:
    """W002 for each table: one sentence for all of its columns, and one statement to mend them."""
    for table, fields in _text_fields().items():
        wrong = {
            fields[column]: problem
            for column, charset, collation in _text_columns(connection, table)
            if column in fields and (problem := _text_problem(fields[column], charset, collation))
        }
        if wrong:
            yield warning(
                "W002",
                _(
                    "In the table %(table)r of the database %(alias)r, %(problems)s.",
                    table=table,
                    alias=alias,
                    problems=_all(list(wrong.values())),
                ),
                _("Run: %(statement)s", statement=_mending(connection, table, wrong)),
            )


def _text_fields() -> dict[str, dict[str, AnyField]]:
    return {
        model._meta.db_table: {str(field.column): field for field in model._meta.concrete_fields}
        for model in apps.get_app_config(Task._meta.app_label).get_models()
    }


def _text_columns(connection: Any, table: str) -> list[tuple[str, str, str]]:
    """(column, character set, collation) of columns with texts; none if there is no such table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, character_set_name, collation_name"
            " FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %s"
            " AND character_set_name IS NOT NULL ORDER BY column_name",
            [table],
        )
        return list(cursor.fetchall())


def _all(clauses: list[str]) -> str:
    if len(clauses) == 1:
        return clauses[0]
    return _("%(one)s; %(others)s", one=clauses[0], others=_all(clauses[1:]))


def _text_problem(field: AnyField, charset: str, collation: str) -> str | None:
    if _is_key(field) and not re.fullmatch(rf"{CHARSET}_(\w+_)?bin", collation):
        return _(
            "%(column)r has the collation %(collation)r, which may take two keys for one",
            column=field.column,
            collation=collation,
        )
    if charset != CHARSET:
        return _(
            "%(column)r has the character set %(charset)r, which lacks characters",
            column=field.column,
            charset=charset,
        )
    return None


def _mending(connection: BaseDatabaseWrapper, table: str, fields: Iterable[AnyField]) -> str:
    quote = connection.ops.quote_name
    changes = [
        f"MODIFY {quote(str(field.column))} {field.db_type(connection)}{_charset_of(field)}"
        f" {'NULL' if field.null else 'NOT NULL'}{_default_of(field)}"
        for field in fields
    ]
    return f"ALTER TABLE {quote(table)} {', '.join(changes)}"


def _default_of(field: AnyField) -> str:
    """The default of a column, which a MODIFY that leaves it out would take away."""
    # Our own words, all of them empty texts.
    return f" DEFAULT '{field.db_default}'" if field.has_db_default() else ""


def _charset_of(field: AnyField) -> str:
    if isinstance(field, JSONField):
        return ""  # the type says it
    return f" CHARACTER SET {CHARSET}{f' COLLATE {CHARSET}_bin' if _is_key(field) else ''}"


def _is_key(field: AnyField) -> bool:
    return isinstance(field, KeyField)


_BY_ASKING: dict[str, Callable[[str, Any], Iterator[CheckMessage]]] = {
    "sqlite": _journal_mode,
    "mysql": _texts,
    "postgresql": _nothing,
}
