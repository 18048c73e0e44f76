"""The database that a command brings tasks to."""

from django.core.management.base import CommandError
from django.db import router

from django_tasks.exceptions import UnknownDatabase
from django_tasks.models import Task
from django_tasks.store.aliases import write_alias


def database(alias: str | None) -> str:
    """``alias``, or the choice of the router; CommandError if no tasks can be there."""
    try:
        using = write_alias(alias)
    except UnknownDatabase as error:
        raise CommandError(str(error).replace("using", "--database", 1)) from None
    if not router.allow_migrate_model(using, Task):
        raise CommandError(f"--database {using}: the routers keep the tables of tasks elsewhere.")
    return using
