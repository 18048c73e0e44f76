"""System checks: what ``manage.py check`` and every command's start say about this package.

========================  ==========================================================================
``django_tasks.E001``     the PyPI distribution ``django-tasks`` has files in this package
``django_tasks.E002``     a handler cannot be imported, cannot be used, or has a code that is taken
``django_tasks.E003``     a setting that cannot be used: ``DJANGO_TASKS`` or ``TASK_HANDLERS``
``django_tasks.E004``     SQLite older than 3.35, which has no RETURNING
``django_tasks.E005``     ``AUTOCOMMIT`` is False: nothing that a worker writes is committed
``django_tasks.E006``     PostgreSQL with psycopg2
``django_tasks.W001``     ``DJANGO_TASKS`` has a key that means nothing
``django_tasks.W002``     MySQL, MariaDB: a column that takes 'A' and 'a' for one key, or that
                          lacks characters
``django_tasks.W003``     SQLite without IMMEDIATE transactions or without write-ahead logging
``django_tasks.W004``     MySQL, MariaDB, PostgreSQL: an isolation level other than READ COMMITTED
``django_tasks.W005``     PostgreSQL: a connection pool smaller than a worker's threads
``django_tasks.W006``     an ``atomic`` handler on SQLite: nobody else can write while it runs
                          (``check --deploy``)
``django_tasks.W007``     connections that are kept but never tested
``django_tasks.W008``     a handler has an attribute whose name is nearly one that means something
========================  ==========================================================================

W002, and W003 for what the database itself says, need a connection: they run with ``migrate`` and
``check --database ALIAS``. The others never connect; ``check --tag django_tasks`` runs them alone.
Only databases that may hold tasks, as the routers say, are looked at.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, Warning  # noqa: A004
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, JSONField

from django_tasks import conf, installation, requirements
from django_tasks.fields import KeyField
from django_tasks.handlers import near_names, registry
from django_tasks.models import Task

TAG = "django_tasks"
CHARSET = "utf8mb4"
OLDEST_SQLITE = (3, 35)
POOL_SIZE = 4  # psycopg_pool's own default

if TYPE_CHECKING:
    AnyField = Field[Any, Any]
else:
    AnyField = Field  # subscriptable in the stubs only

SQLITE_OPTIONS = (
    '"OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE", '
    '"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"}'
)
# In PostgreSQL's "options": -c default_transaction_isolation=repeatable\\ read
_ISOLATION = re.compile(r"default_transaction_isolation\s*=\s*([^-]*)", re.IGNORECASE)
_WAL = re.compile(r"journal_mode\s*[=(]\s*['\"]?wal\b", re.IGNORECASE)


def register() -> None:
    """Tell Django about the checks below. Twice is nothing."""
    for check in (check_installation, check_handlers, check_settings, check_databases):
        checks.register(check, TAG)
    checks.register(near_names.check_names, TAG)
    checks.register(check_atomic_handlers, TAG, deploy=True)
    # Without our tag: Django 6.1's ``--tag`` gives every database to the checks that have it.
    checks.register(check_connections, Tags.database)


def check_installation(**kwargs: Any) -> list[CheckMessage]:
    """E001"""
    clash = installation.clash()
    return [Error(clash, hint=installation.CURE, id=installation.CHECK_ID)] if clash else []


def check_handlers(**kwargs: Any) -> list[CheckMessage]:
    """E002"""
    # The registry notes an unusable TASK_HANDLERS too; that is E003.
    problems = set(registry.problems()) - set(_refusals(conf.handler_paths))
    hint = "Mend it, or take it out; no worker runs its tasks as it is."
    return [_error("E002", problem, hint) for problem in sorted(problems)]


def check_atomic_handlers(**kwargs: Any) -> list[CheckMessage]:
    """W006: right in development, and to be thought about before production"""
    return [warning for alias in _sqlite_files() for warning in _atomic_handlers(alias)]


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """E003, W001"""
    not_a_dict = _refusals(conf.unknown_names)
    refusals = [_error("E003", text) for text in (*not_a_dict, *_refusals(conf.handler_paths))]
    return refusals if not_a_dict else [*refusals, *_bad_values(), *_unknown_names()]


def check_databases(**kwargs: Any) -> list[CheckMessage]:
    """E004 to E006, W003 to W005, W007: what the settings of the databases tell"""
    found: list[CheckMessage] = []
    for alias in _aliases():
        connection = connections[alias]
        for check in (*_BY_VENDOR.get(connection.vendor, ()), _autocommit):
            found += check(alias, connection)
    return found


def check_connections(
    databases: Iterable[str] | None = None, **kwargs: Any
) -> Iterable[CheckMessage]:
    """W002, W003: what the databases themselves tell"""
    asked = set(databases or ())
    found: list[CheckMessage] = []
    for alias in _aliases():
        check = _BY_ASKING.get(connections[alias].vendor)
        if check and alias in asked:
            found += check(alias, connections[alias])
    return found


# Handlers and settings


def _atomic_handlers(alias: str) -> Iterator[CheckMessage]:
    for code, handler in registry.get_task_handlers().items():
        if handler.atomic:
            yield _warning(
                "W006",
                f"The handler of {code!r} ({registry.describe(handler)}) is atomic and may run on "
                f"the SQLite database {alias!r}: while it runs, nobody else can write, and no "
                "worker can send its heartbeat.",
                "Keep its runs far shorter than the lease: slow work, such as calls over the "
                "network, belongs before or after it, in a handler that is not atomic. Or keep "
                "the tasks in MariaDB, MySQL or PostgreSQL.",
            )


def _refusals(read: Callable[[], Any]) -> list[str]:
    try:
        read()
    except conf.ConfigurationError as error:
        return [str(error)]
    return []


def _bad_values() -> Iterator[CheckMessage]:
    for name, problem in conf.problems():
        yield _error("E003", f"DJANGO_TASKS[{name!r}] {problem}")


def _unknown_names() -> Iterator[CheckMessage]:
    for name in conf.unknown_names():
        yield _warning("W001", f"DJANGO_TASKS[{name!r}] means nothing.", _did_you_mean(name))


def _did_you_mean(name: str) -> str:
    near = get_close_matches(name.upper(), conf.names(), n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(conf.names())}."


# Databases, by their settings


def _sqlite_version(alias: str, connection: Any) -> Iterator[CheckMessage]:
    if connection.Database.sqlite_version_info < OLDEST_SQLITE:
        yield _error(
            "E004",
            f"SQLite {connection.Database.sqlite_version}, of the database {alias!r}, has no "
            "RETURNING; 3.35 or later is needed.",
        )


def _sqlite_options(alias: str, connection: Any) -> Iterator[CheckMessage]:
    if _in_memory(connection):
        return
    if lacking := list(_lacking(connection.settings_dict["OPTIONS"])):
        yield _warning(
            "W003",
            f"The SQLite database {alias!r} is not set up for more than one who writes: "
            f"{'; and '.join(lacking)}.",
            f"In that database's settings: {SQLITE_OPTIONS}",
        )


def _lacking(options: Mapping[str, Any]) -> Iterator[str]:
    # EXCLUSIVE takes the write lock at the start as well.
    if str(options.get("transaction_mode")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield (
            "its transactions do not begin with the write lock, so one that reads and then writes "
            "fails when another has written in between"
        )
    if not _WAL.search(options.get("init_command", "")):
        yield (
            "its settings do not ask for write-ahead logging, without which readers and the writer "
            "wait for each other"
        )


def _autocommit(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if problem := requirements.autocommit_problem(alias):
        yield _error(
            "E005",
            problem,
            "Take AUTOCOMMIT out of its settings, or keep the tasks in another database, by a "
            "router.",
        )


def _driver(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if problem := requirements.driver_problem(alias):
        yield _error("E006", problem)


def _isolation_of_mysql(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    # Unset, Django takes READ COMMITTED; None means: as the server says, REPEATABLE READ as a rule.
    level = connection.settings_dict["OPTIONS"].get("isolation_level", "read committed")
    if str(level).lower() != "read committed":
        yield _warning(
            "W004",
            f"The isolation level of the database {alias!r} is {level!r}. Workers lock rows and "
            "gaps there that they do not change, and wait for each other.",
            'Take "isolation_level" out of its OPTIONS; Django then uses "read committed".',
        )


def _isolation_of_postgresql(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    level = _isolation_level(connection.settings_dict["OPTIONS"])
    if level in ("REPEATABLE READ", "SERIALIZABLE"):
        yield _warning(
            "W004",
            f"The isolation level of the database {alias!r} is {level}. A statement of a worker "
            "fails there when somebody else has just changed its row, and an atomic run whose task "
            "is added again or cancelled meanwhile is rolled back, where its effects would stand.",
            "Take the level out of its OPTIONS; Django then uses READ COMMITTED. A transaction "
            "that needs another one can begin with SET TRANSACTION ISOLATION LEVEL.",
        )


def _isolation_level(options: Mapping[str, Any]) -> str:
    """As Django's option says, which is a number, or else as the options of the session do."""
    with suppress(KeyError, TypeError, ValueError):
        from django.db.backends.postgresql.psycopg_any import IsolationLevel

        return str(IsolationLevel(options["isolation_level"]).name).replace("_", " ")
    asked = _ISOLATION.search(str(options.get("options", "")))
    return re.sub(r"\W+", " ", asked[1]).strip().upper() if asked else ""


def _pool_size(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    pool = connection.settings_dict["OPTIONS"].get("pool")
    if not pool or _refusals(conf.options):
        return
    wanted = conf.options().threads  # the poller and the heartbeat have connections of their own
    size = _most_connections({} if pool is True else pool)
    if size < wanted:
        yield _warning(
            "W005",
            f"The connection pool of the database {alias!r} holds at most {size}; a worker has "
            f"{wanted} threads, so some of them will wait for a connection.",
            f'"pool": {{"max_size": {wanted}}} in its OPTIONS, or fewer THREADS in DJANGO_TASKS.',
        )


def _most_connections(pool: dict[str, Any]) -> int:
    smallest = pool.get("min_size", POOL_SIZE)
    largest = pool.get("max_size")
    return int(smallest if largest is None else largest)


def _kept_connections(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    settings = connection.settings_dict
    if settings["CONN_MAX_AGE"] != 0 and not settings["CONN_HEALTH_CHECKS"]:
        yield _warning(
            "W007",
            f"Connections to the database {alias!r} are kept (CONN_MAX_AGE is "
            f"{settings['CONN_MAX_AGE']!r}) but not tested before they are used again: after the "
            "server has closed one, the next task on it fails.",
            '"CONN_HEALTH_CHECKS": True in its settings.',
        )


_BY_VENDOR: dict[str, tuple[Callable[[str, Any], Iterator[CheckMessage]], ...]] = {
    "sqlite": (_sqlite_version, _sqlite_options),
    "mysql": (_isolation_of_mysql, _kept_connections),
    "postgresql": (_driver, _isolation_of_postgresql, _pool_size, _kept_connections),
}


# Databases, by asking them


def _journal_mode(alias: str, connection: Any) -> Iterator[CheckMessage]:
    # Where the settings do not even ask for it, that has been said already.
    asked_for = _WAL.search(connection.settings_dict["OPTIONS"].get("init_command", ""))
    if _in_memory(connection) or not asked_for:
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        (mode,) = cursor.fetchone()
    if mode.lower() != "wal":
        yield _warning(
            "W003",
            f"The SQLite database {alias!r} does not use write-ahead logging although its "
            f"settings ask for it; its journal mode is {mode!r}.",
            "Its file system may lack what it needs (network file systems do): move the file.",
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
            yield _warning(
                "W002",
                f"In the table {table!r} of the database {alias!r}, {'; '.join(wrong.values())}.",
                f"Run: {_mending(connection, table, wrong)}",
            )


def _text_fields() -> dict[str, dict[str, AnyField]]:
    """The fields of each of our tables, by column."""
    return {
        model._meta.db_table: {str(field.column): field for field in model._meta.concrete_fields}
        for model in apps.get_app_config(TAG).get_models()
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


def _text_problem(field: AnyField, charset: str, collation: str) -> str | None:
    if _is_key(field) and not re.fullmatch(rf"{CHARSET}_(\w+_)?bin", collation):
        return f"{field.column!r} has the collation {collation!r}, which may take two keys for one"
    if charset != CHARSET:
        return f"{field.column!r} has the character set {charset!r}, which lacks characters"
    return None


def _mending(connection: BaseDatabaseWrapper, table: str, fields: Iterable[AnyField]) -> str:
    quote = connection.ops.quote_name
    changes = [
        f"MODIFY {quote(str(field.column))} {field.db_type(connection)}{_charset_of(field)}"
        f" {'NULL' if field.null else 'NOT NULL'}"
        for field in fields
    ]
    return f"ALTER TABLE {quote(table)} {', '.join(changes)}"


def _charset_of(field: AnyField) -> str:
    if isinstance(field, JSONField):
        return ""  # the type says it
    return f" CHARACTER SET {CHARSET}{f' COLLATE {CHARSET}_bin' if _is_key(field) else ''}"


def _is_key(field: AnyField) -> bool:
    return isinstance(field, KeyField)


_BY_ASKING: dict[str, Callable[[str, Any], Iterator[CheckMessage]]] = {
    "sqlite": _journal_mode,
    "mysql": _texts,
}


# Which databases, and how to say it


def _aliases() -> list[str]:
    """Databases that may hold tasks. Looking at their settings does not connect to them."""
    return [alias for alias in connections if router.allow_migrate_model(alias, Task)]


def _sqlite_files() -> Iterator[str]:
    for alias in _aliases():
        if connections[alias].vendor == "sqlite" and not _in_memory(connections[alias]):
            yield alias


def _in_memory(connection: Any) -> bool:
    """A database of one process, such as a test's: nobody else is there to wait for."""
    return bool(connection.is_in_memory_db())


def _error(number: str, message: str, hint: str | None = None) -> CheckMessage:
    return Error(message, hint=hint, id=f"django_tasks.{number}")


def _warning(number: str, message: str, hint: str) -> CheckMessage:
    return Warning(message, hint=hint, id=f"django_tasks.{number}")
