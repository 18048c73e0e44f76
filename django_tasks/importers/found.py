"""Jobs of other schedulers as they were found, where they stand, and where they are brought to."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.apps import apps
from django.core.management.base import CommandError
from django.db import connections, router
from django.db.models import QuerySet

from django_tasks.exceptions import UnknownDatabase
from django_tasks.handlers.finders import has_handler
from django_tasks.models import Task
from django_tasks.schedules import At, Schedule
from django_tasks.sentences import sentence as _
from django_tasks.store.aliases import write_alias
from django_tasks.values.options import NO_OPTIONS, TaskOptions


class StoreError(Exception):
    """A store that cannot be read; the text is one sentence for the user."""


class CannotCome(Exception):
    """One job that cannot come over; the text says why."""


class Found(NamedTuple):
    """A job that can come over. ``function`` is what it calls, as its scheduler writes that.

    ``notes`` are what will be otherwise from now on, one short clause each.
    """

    name: str
    function: str
    when: datetime
    schedule: Schedule
    payload: dict[str, Any]
    options: TaskOptions = NO_OPTIONS
    queue: str = ""
    priority: int | None = None
    is_paused: bool = False
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str | None:
        """Its schedule as the row keeps it; None if it runs once."""
        return None if isinstance(self.schedule, At) else str(self.schedule)


class Left(NamedTuple):
    """A job that stays where it is, and why."""

    name: str
    reason: str


def next_time(schedule: Schedule, since: datetime) -> datetime:
    """The time of a job that does not say its own; CannotCome if that has passed for good."""
    if isinstance(schedule, At):
        return schedule.when
    when = schedule.next_after(None, since)
    if when is None:
        raise CannotCome(_("it has expired"))
    return when


def payload(args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call as ``biz_ext``; CannotCome if JSON would make others of them."""
    if not isinstance(args, (list, tuple)) or not isinstance(kwargs, dict):
        raise CannotCome(_("its arguments are no list and dict"))
    value = {"args": list(args), "kwargs": kwargs}
    try:
        same = json.loads(json.dumps(value)) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise CannotCome(_("its arguments are not JSON (%(error)s)", error=error)) from None
    if not same:
        raise CannotCome(_("JSON would change its arguments (tuples, keys that are no texts)"))
    return value


def without_handler(codes: Iterable[str]) -> list[str]:
    """Those of ``codes`` that no handler of this project has."""
    return sorted(code for code in set(codes) if not has_handler(code))


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
