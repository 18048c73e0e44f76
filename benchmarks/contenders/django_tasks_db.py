"""django-tasks-db: the database backend of Django's own tasks framework."""

from collections.abc import Sequence
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.contenders.base import Contender, as_datetime, python
from benchmarks.contenders.django_setup import set_up


class DjangoTasksDb(Contender):
    settings = "db_worker, 2 processes, polls every second; added in one transaction"

    def prepare(self) -> None:
        set_up(self.url, "django_tasks_db")

    def add_many(self, tasks: Sequence[Any]) -> None:
        from django.db import transaction

        with transaction.atomic():
            for number, due in tasks:
                self.add(number, due)

    def add(self, number: int, due: float) -> None:
        from benchmarks.contenders.backport import tick

        later = due > time()
        (tick.using(run_after=as_datetime(due)) if later else tick).enqueue(number)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "django", "db_worker", "--no-startup-delay", "-v", "0")] * 2

    def is_empty(self) -> bool:
        from django_tasks_db.models import DBTaskResult

        return not DBTaskResult.objects.filter(status__in=("READY", "RUNNING")).exists()

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("django-tasks-db", "Django")}


CONTENDER = DjangoTasksDb
