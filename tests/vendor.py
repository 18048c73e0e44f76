"""The database that this run is about."""

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


def fail_for_want(reason: str) -> NoReturn:
    """Fail a test for which something is missing here: ``scripts/setup test`` brings it."""
    pytest.fail(reason)
