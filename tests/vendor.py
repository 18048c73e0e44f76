"""The database that this run is about."""

import os
from typing import NoReturn

import pytest
from django.conf import settings

SQLITE, MYSQL, POSTGRESQL = "sqlite3", "mysql", "postgresql"
SERVERS = (MYSQL, POSTGRESQL)
VENDOR = settings.DATABASES["default"]["ENGINE"].rpartition(".")[2]
ON_SQLITE = VENDOR == SQLITE


def only_on(*vendors: str, because: str) -> pytest.MarkDecorator:
    """Mark a test that means something on these databases alone: on others it is not collected.

    ``because`` is for the reader: what the others do not have.
    """
    return pytest.mark.only_on(*vendors, because=because)


def leave_out(reason: str) -> NoReturn:
    """Skip a test for which something is missing here; fail where nothing may be left out."""
    if os.environ.get("REQUIRE_ALL_DATABASES", "0") not in ("", "0"):
        pytest.fail(reason)
    pytest.skip(reason=reason)  # outside of CI: a developer may have no PgBouncer or web server
