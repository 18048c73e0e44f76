"""The database that this run is about."""

from functools import cache
from typing import Any, NoReturn

import pytest
from django.conf import settings
from django.db import connections

SQLITE, MARIADB, MYSQL, POSTGRESQL = "sqlite3", "mariadb", "mysql", "postgresql"
MYSQL_FAMILY = (MARIADB, MYSQL)
SERVERS = (*MYSQL_FAMILY, POSTGRESQL)
# As Django names it: "mysql" is MariaDB as well.
VENDOR: str = settings.DATABASES["default"]["ENGINE"].rpartition(".")[2]
ON_SQLITE = VENDOR == SQLITE


def only_on(*databases: str, because: str) -> pytest.MarkDecorator:
    """Mark a test that means something on these databases alone: on others it is not collected.

    ``because`` is for the reader: what the others do not have.
    """
    return pytest.mark.only_on(*databases, because=because)


def is_on(*databases: str) -> bool:
    """Tell if this run is about one of them. The server is asked only where that decides."""
    if VENDOR == "mysql" and (MARIADB in databases) != (MYSQL in databases):
        return database() in databases
    return VENDOR in databases


@cache
def database() -> str:
    """The name of this run's database. Of a family, the server says which it is."""
    if VENDOR != "mysql":
        return VENDOR
    # A connection of its own: tests are collected before they may use Django's, and before there is
    # a database for them.
    connection: Any = connections["default"]
    params = connection.get_connection_params()
    params.pop("database", None)
    server = connection.get_new_connection(params)
    try:
        cursor = server.cursor()
        cursor.execute("SELECT VERSION()")
        ((version,),) = cursor.fetchall()
    finally:
        server.close()
    return MARIADB if "MariaDB" in version else MYSQL


def fail_for_want(reason: str) -> NoReturn:
    """Fail a test for which something is missing here: ``scripts/setup test`` brings it."""
    pytest.fail(reason)
