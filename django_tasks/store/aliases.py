"""The database that a caller means: an alias, or the choice of the router."""

from django.db import connections, router

from django_tasks.exceptions import UnknownDatabase
from django_tasks.models import Task
from django_tasks.sentences import sentence as _


def write_alias(using: str | None) -> str:
    """The database to write to: ``using``, or the router's choice. Raises UnknownDatabase."""
    return _known(router.db_for_write(Task) if using is None else using)


def read_alias(using: str | None) -> str:
    """The database to read from: ``using``, or the router's choice. Raises UnknownDatabase."""
    return _known(router.db_for_read(Task) if using is None else using)


def _known(alias: str) -> str:
    if alias not in connections:
        choices = ", ".join(repr(name) for name in connections)
        raise UnknownDatabase(
            _("using must be one of %(choices)s, not %(alias)r", choices=choices, alias=alias)
        )
    return alias
