"""Checks of the databases by their settings alone: nothing here connects."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from django.core.checks import CheckMessage
from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks import conf, requirements
from django_tasks.checks.messages import (
    asks_for_wal,
    error,
    in_memory,
    refusals,
    task_databases,
    warning,
)
from django_tasks.handlers.registry import sticky_codes, terms_for
from django_tasks.sentences import sentence as _

OLDEST_SQLITE = (3, 35)
POOL_SIZE = 4  # psycopg_pool's own default
SQLITE_OPTIONS = (
    '"OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE", '
    '"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"}'
)
# In PostgreSQL's "options": -c default_transaction_isolation=repeatable\\ read
_ISOLATION = re.compile(r"default_transaction_isolation\s*=\s*([^-]*)", re.IGNORECASE)


def check_databases(**kwargs: Any) -> list[CheckMessage]:
    """E004 to E006, W003 to W005, W007: the settings of the databases"""
    found: list[CheckMessage] = []
    for alias, connection in task_databases():
        for check in (*_BY_VENDOR.get(connection.vendor, ()), _autocommit):
            found += check(alias, connection)
    return found


def _sqlite_version(alias: str, connection: Any) -> Iterator[CheckMessage]:
    if connection.Database.sqlite_version_info < OLDEST_SQLITE:
        yield error(
            "E004",
            _(
                "SQLite %(sqlite_version)s, of the database %(alias)r, has no RETURNING; "
                "3.35 or later is needed.",
                sqlite_version=connection.Database.sqlite_version,
                alias=alias,
            ),
        )


def _sqlite_options(alias: str, connection: Any) -> Iterator[CheckMessage]:
    if in_memory(connection):
        return
    if lacking := list(_lacking(connection)):
        yield warning(
            "W003",
            _(
                "The SQLite database %(alias)r is not set up for more than one who "
                "writes: %(lacking)s.",
                alias=alias,
                lacking=_both(lacking),
            ),
            _("In that database's settings: %(settings)s", settings=SQLITE_OPTIONS),
        )


def _both(clauses: list[str]) -> str:
    if len(clauses) == 1:
        return clauses[0]
    return _("%(one)s; and %(other)s", one=clauses[0], other=clauses[1])


def _lacking(connection: Any) -> Iterator[str]:
    # EXCLUSIVE takes the write lock at the start as well.
    mode = connection.settings_dict["OPTIONS"].get("transaction_mode")
    if str(mode).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield (
            _(
                "its transactions do not begin with the write lock, so one that reads "
                "and then writes fails when another has written in between"
            )
        )
    if not asks_for_wal(connection):
        yield (
            _(
                "its settings do not ask for write-ahead logging, without which readers "
                "and the writer wait for each other"
            )
        )


def _autocommit(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if problem := requirements.autocommit_problem(alias):
        yield error(
            "E005",
            problem,
            _(
                "Take AUTOCOMMIT out of its settings, or keep the tasks in another "
                "database, by a router."
            ),
        )


def _driver(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if problem := requirements.driver_problem(alias):
        yield error("E006", problem)


def _isolation_of_mysql(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    # Unset, Django takes READ COMMITTED; None means: as the server says, REPEATABLE READ as a rule.
    level = connection.settings_dict["OPTIONS"].get("isolation_level", "read committed")
    if str(level).lower() != "read committed":
        yield warning(
            "W004",
            _(
                "The isolation level of the database %(alias)r is %(level)r. Workers "
                "lock rows and gaps there that they do not change, and wait for each "
                "other.",
                alias=alias,
                level=level,
            ),
            _('Take "isolation_level" out of its OPTIONS; Django then uses "read committed".'),
        )


def _isolation_of_postgresql(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    level = _isolation_level(connection.settings_dict["OPTIONS"])
    if level in ("REPEATABLE READ", "SERIALIZABLE"):
        yield warning(
            "W004",
            _(
                "The isolation level of the database %(alias)r is %(level)s. A statement "
                "of a worker fails there when somebody else has just changed its row, "
                "and an atomic run whose task is added again or cancelled meanwhile is "
                "rolled back, where its effects would stand.",
                alias=alias,
                level=level,
            ),
            _(
                "Take the level out of its OPTIONS; Django then uses READ COMMITTED. A "
                "transaction that needs another one can begin with SET TRANSACTION "
                "ISOLATION LEVEL."
            ),
        )


def _isolation_level(options: Mapping[str, Any]) -> str:
    with suppress(KeyError, TypeError, ValueError):
        from django.db.backends.postgresql.psycopg_any import IsolationLevel

        return str(IsolationLevel(options["isolation_level"]).name).replace("_", " ")
    asked = _ISOLATION.search(str(options.get("options", "")))
    return re.sub(r"\W+", " ", asked[1]).strip().upper() if asked else ""


def _pool_size(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    pool = connection.settings_dict["OPTIONS"].get("pool")
    if not pool or refusals(conf.options):
        return
    # The poller and the heartbeat have connections of their own; calls of on_passive have not.
    heard = any(terms_for(code).has_passive_hook for code in sticky_codes())
    wanted = conf.options().threads + heard
    size = _most_connections({} if pool is True else pool)
    if size < wanted:
        yield warning(
            "W005",
            _(
                "The connection pool of the database %(alias)r holds at most %(size)s; a "
                "worker has %(wanted)s threads that use it, so some of them will wait "
                "for a connection.",
                alias=alias,
                size=size,
                wanted=wanted,
            ),
            _(
                '"pool": {"max_size": %(wanted)s} in its OPTIONS, or fewer THREADS in '
                "DJANGO_TASKS.",
                wanted=wanted,
            ),
        )


def _most_connections(pool: dict[str, Any]) -> int:
    smallest = pool.get("min_size", POOL_SIZE)
    largest = pool.get("max_size")
    return int(smallest if largest is None else largest)


def _kept_connections(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    settings = connection.settings_dict
    if settings["CONN_MAX_AGE"] != 0 and not settings["CONN_HEALTH_CHECKS"]:
        yield warning(
            "W007",
            _(
                "Connections to the database %(alias)r are kept (CONN_MAX_AGE is "
                "%(age)r) but not tested before they are used again: after the "
                "server has closed one, the next task on it fails.",
                alias=alias,
                age=settings["CONN_MAX_AGE"],
            ),
            _('"CONN_HEALTH_CHECKS": True in its settings.'),
        )


_BY_VENDOR: dict[str, tuple[Callable[[str, Any], Iterator[CheckMessage]], ...]] = {
    "sqlite": (_sqlite_version, _sqlite_options),
    "mysql": (_isolation_of_mysql, _kept_connections),
    "postgresql": (_driver, _isolation_of_postgresql, _pool_size, _kept_connections),
}
