"""django-tasks-db: the database backend of Django's own tasks framework."""

from collections.abc import Sequence
from typing import Any

from benchmarks.contenders.base import python
from benchmarks.contenders.framework import Backend


class DjangoTasksDb(Backend):
    app, package = "django_tasks_db", "django-tasks-db"
    settings = "db_worker, 2 processes, polls every second; added in one transaction"
    caveat = "By its source: one attempt, and a call whose worker has died stays RUNNING"

    def add_many(self, tasks: Sequence[Any]) -> None:
        from django.db import transaction

        with transaction.atomic():
            for number, due in tasks:
                self.add(number, due)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "django", "db_worker", "--no-startup-delay", "-v", "0")] * 2

    def is_empty(self) -> bool:
        from django_tasks_db.models import DBTaskResult

        return not DBTaskResult.objects.filter(status__in=("READY", "RUNNING")).exists()


CONTENDER = DjangoTasksDb
