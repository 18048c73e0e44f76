"""The column types of keys, of payloads and of options; and an index that is wider on MySQL."""

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement

from django_tasks import payloads
from django_tasks.exceptions import TaskValueError
from django_tasks.values.options import (
    NO_OPTIONS,
    TaskOptions,
    options_of_text,
    options_to_text,
)

if TYPE_CHECKING:
    CharField = models.CharField[str, str]
    TextField = models.TextField[Any, Any]
else:
    CharField = models.CharField  # subscriptable in the stubs only
    TextField = models.TextField


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


def payload_field(label: Any) -> models.JSONField:
    """A column for a JSON value of the project's, by the encoder and decoder of its settings."""
    # json calls a class or a function, whichever is there.
    manners: Any = {"encoder": payloads.encoder, "decoder": payloads.decoder}
    return models.JSONField(label, null=True, blank=True, **manners)


class OptionsField(TextField):
    """The options of a task, as JSON in the column; a ``TaskOptions`` in Python, never None."""

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def to_python(self, value: Any) -> TaskOptions:
        return value if isinstance(value, TaskOptions) else options_of_text(value or None)

    def from_db_value(
        self, value: str | None, expression: Any, connection: BaseDatabaseWrapper
    ) -> TaskOptions:
        try:
            return options_of_text(value)
        except TaskValueError:  # one such row must not hide all others; its run will say so
            return NO_OPTIONS

    def get_prep_value(self, value: Any) -> str | None:
        return options_to_text(self.to_python(value))

    def value_to_string(self, obj: models.Model) -> str:
        return self.get_prep_value(self.value_from_object(obj)) or ""


# They never change without the status, which is a field of the index.
_CLAIM = ("claimed_by", "claim_time")


class ClaimIndex(models.Index):
    """An index whose entries on MySQL and MariaDB tell of a claim as well, behind the fields.

    On InnoDB each entry of an index costs a search for its row: the claims by code and worker took
    6 ms for 1,400 of them among ten million tasks, and 1.3 ms by the index alone. A claim writes a
    new entry in any case: MariaDB drains tasks in 1.01 of the time.

    Not on PostgreSQL: each entry of a task that waits would be longer, draining took 1.06 of the
    time, and a row that was changed since the last vacuum is looked up all the same.

    Migrations know the fields alone: another width wants a migration that is written by hand.
    """

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: BaseDatabaseSchemaEditor,
        *args: Any,
        **kwargs: Any,
    ) -> Statement:
        if schema_editor.connection.vendor != "mysql":
            return super().create_sql(model, schema_editor, *args, **kwargs)
        _, _, given = self.deconstruct()
        wider = models.Index(**{**given, "fields": [*self.fields, *_CLAIM]})
        return wider.create_sql(model, schema_editor, *args, **kwargs)
