"""The database that a command brings tasks to."""

from django.core.management.base import CommandError
from django.db import connections, router

from django_tasks.exceptions import UnknownDatabase
from django_tasks.models import Task
from django_tasks.sentences import sentence as _
from django_tasks.store.aliases import write_alias


def database(alias: str | None) -> str:
    """``alias``, or the choice of the router; CommandError if no tasks can be there."""
    try:
        using = write_alias(alias)
    except UnknownDatabase:
        choices = ", ".join(repr(name) for name in connections)
        raise CommandError(
            _("--database must be one of %(choices)s, not %(alias)r", choices=choices, alias=alias)
        ) from None
    if not router.allow_migrate_model(using, Task):
        raise CommandError(
            _("--database %(using)s: the routers keep the tables of tasks elsewhere.", using=using)
        )
    return using
