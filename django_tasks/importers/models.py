"""Tables of other apps of the project, read by their own models."""

from typing import Any

from django.apps import apps
from django.db import connections
from django.db.models import QuerySet

from django_tasks.importers.found import StoreError
from django_tasks.sentences import sentence as _


def rows_of(app: str, model: str, using: str | None) -> "QuerySet[Any]":
    """All rows of a model, in the database ``using`` or where the router reads them.

    Raises StoreError if the app is not installed, or there is no such database.
    """
    if not apps.is_installed(app):
        raise StoreError(
            _("%(app)s is not in INSTALLED_APPS, without which its tables are not read", app=app)
        )
    if using is not None and using not in connections:
        raise StoreError(
            _(
                "--from-database %(using)s: there is only %(connections)s",
                using=using,
                connections=", ".join(connections),
            )
        )
    rows: QuerySet[Any] = apps.get_model(app, model)._default_manager.all()
    return rows.using(using) if using else rows
