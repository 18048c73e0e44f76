"""The tables that this version needs, and those that a database has."""

from collections.abc import Collection

from django.apps import apps
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks.models import Task
from django_tasks.redaction import without_secrets
from django_tasks.sentences import Sentence
from django_tasks.sentences import sentence as _
from django_tasks.store.rejections import rejection_of


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Tables that are needed and not there, and columns, as ``table.column``."""
    found = []
    quoted = connection.ops.quote_name
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        for model in apps.get_app_config(Task._meta.app_label).get_models():
            table = model._meta.db_table
            if table not in tables:
                found.append(table)
                continue
            # Django's introspection parses SQLite's definitions: a tenth of the start of a worker.
            cursor.execute(f"SELECT * FROM {quoted(table)} WHERE 1 = 0")
            there = {column[0] for column in cursor.description}
            found += [
                f"{table}.{field.column}"
                for field in model._meta.concrete_fields
                if field.column not in there
            ]
    return found


def sentence(names: Collection[str], using: str) -> Sentence:
    """Say what is missing, and what to do."""
    return _(
        "The tables of django_tasks in database %(using)s are not those of this "
        "version (%(missing)s missing): run manage.py migrate --database "
        "%(using)s",
        using=using,
        missing=", ".join(names),
    )


def words(error: Error, using: str) -> Sentence:
    """Say why a statement has failed: tables are missing, or what the database says."""
    try:
        names = missing(connections[using])
    except Error:  # it does not answer this either
        names = []
    if names:
        return sentence(names, using)
    if rejection := rejection_of(error, using=using):
        return rejection.sentence(using)
    text = without_secrets(str(error).strip())
    return _("The database %(using)s does not answer: %(text)s", using=using, text=text)
