"""A stop for ``migrate`` where the forerunner's table stands in the place of ours."""

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError
from django.db import router
from django.db.migrations import Migration

from django_tasks.models import Task
from django_tasks.store import forerunner


def refuse_forerunner(*, using: str, plan: Sequence[tuple[Migration, bool]], **_: Any) -> None:
    """Raise CommandError before a migration that would make our tables beside the forerunner's.

    A receiver of ``pre_migrate``: nothing has been changed by then, of other apps neither.
    """
    is_first = any(
        migration.app_label == Task._meta.app_label and migration.initial and not is_backwards
        for migration, is_backwards in plan
    )
    if not is_first or not router.allow_migrate_model(using, Task):
        return
    if old := forerunner.under_our_name(using=using):
        raise CommandError(
            f"The table {old.name} in database {using} is the forerunner's, and was left as it is:"
            f" run manage.py adopttasks --dry-run --database {using} to see how its tasks come over"
            " (docs/coming-over.rst)."
        )
