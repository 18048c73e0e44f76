"""A stop for ``migrate`` where the forerunner's table stands in the place of ours.

And a reminder where its rows were not all copied. Both are receivers of ``pre_migrate``.
"""

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError
from django.db import router
from django.db.migrations import Migration

from django_tasks.models import Task
from django_tasks.sentences import sentence as _
from django_tasks.store import forerunner


def refuse_forerunner(*, using: str, plan: Sequence[tuple[Migration, bool]], **kwargs: Any) -> None:
    """Raise CommandError before a migration that would make our tables beside the forerunner's.

    Nothing has been changed by then, of other apps neither.
    """
    is_first = any(
        migration.app_label == Task._meta.app_label and migration.initial and not is_backwards
        for migration, is_backwards in plan
    )
    if not is_first or not router.allow_migrate_model(using, Task):
        return
    if old := forerunner.under_our_name(using=using):
        raise CommandError(
            _(
                "The table %(name)s in database %(using)s is the forerunner's, and was "
                "left as it is: run manage.py adopttasks --dry-run --database %(using)s "
                "to see how its tasks come over (docs/coming-from/stores.rst).",
                name=old.name,
                using=using,
            )
        )


def remind_of_rows(*, using: str, verbosity: int, stdout: Any = None, **kwargs: Any) -> None:
    """Say so if an adoption was interrupted: the tables are made, and rows are missing."""
    if not verbosity or stdout is None or not router.allow_migrate_model(using, Task):
        return
    old = forerunner.set_aside(using=using)
    if old and (left := forerunner.count_left(old, using=using)):
        reminder = _(
            "The table %(name)s in database %(using)s has %(left)s tasks that did "
            "not come over yet: run manage.py adopttasks --apply --database "
            "%(using)s.",
            name=old.name,
            using=using,
            left=f"{left:,}",
        )
        stdout.write(f"{reminder}\n")
