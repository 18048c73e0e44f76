"""The ways around the store that Django's ORM has to every model. On tasks they are closed.

A worker learns of a change by a row's version, its owner and its status, and clients need hints,
signals and checked values: the functions of ``django_tasks.api`` see to all of that. What the ORM
needs for itself stays open: ``_base_manager``, raw saves (fixtures) and the deleting of whole
tables.
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from django.db import models

from django_tasks.exceptions import DirectWrite
from django_tasks.sentences import in_english
from django_tasks.sentences import sentence as _

Row = TypeVar("Row", bound=models.Model)
Closed = Callable[..., NoReturn]

_STEER = _("add_task, reschedule_task, run_task_now, pause_task, resume_task or requeue_task")
_INSTEAD = {
    "save": _("add_task or reschedule_task"),
    "create": "add_task",
    "get_or_create": "add_task(task, on_conflict='keep')",
    "update_or_create": "add_task",
    "bulk_create": "add_tasks",
    "bulk_update": "add_tasks",
    "update": _STEER,
    "delete": _("cancel_task or delete_tasks"),
}


def _closed(name: str, *, queryset_only: bool = False) -> Closed:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise DirectWrite(name, _INSTEAD[name])

    refuse.__name__ = name
    with in_english():
        refuse.__doc__ = f"Raise DirectWrite: call {_INSTEAD[name]} instead."
    # As on Django's own: no template calls it, and no manager has ``delete``.
    refuse.alters_data = True  # type: ignore[attr-defined]
    refuse.queryset_only = queryset_only  # type: ignore[attr-defined]
    return refuse


class GuardedQuerySet(models.QuerySet[Row]):
    """Reads as any other. Every way to write raises DirectWrite, the async ones as well."""

    create = _closed("create")
    get_or_create = _closed("get_or_create")
    update_or_create = _closed("update_or_create")
    bulk_create = _closed("bulk_create")
    bulk_update = _closed("bulk_update")
    update = _closed("update")
    delete = _closed("delete", queryset_only=True)


class GuardedModel(models.Model):
    """A model that is not saved and not deleted row by row."""

    save = _closed("save")
    delete = _closed("delete")

    class Meta:
        abstract = True
