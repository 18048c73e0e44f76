"""The column type of keys."""

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:
    CharField = models.CharField[str, str]
else:
    CharField = models.CharField  # subscriptable in the stubs only


class KeyField(CharField):
    """A CharField that tells 'A' from 'a' and 'á' on every database.

    MySQL's and MariaDB's default collations take them for one key (and find one by another: a
    cancel could hit somebody else's task), so the column is ``utf8mb4_bin`` there. ``db_collation``
    cannot say that: SQLite and PostgreSQL have no such collation.
    """

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        parameters = super().db_parameters(connection)
        if connection.vendor == "mysql":
            parameters["collation"] = "utf8mb4_bin"
        return parameters
