"""django-q2 with its ORM broker."""

from collections.abc import Sequence
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.contenders.base import Contender, as_datetime, python
from benchmarks.contenders.django_setup import set_up

TICK = "benchmarks.tick.tick"


class DjangoQ2(Contender):
    settings = (
        "qcluster, 2 workers, bulk 100, successes not saved; future tasks as schedules;"
        " added in one transaction"
    )
    caveat = (
        "“In case a task is worked on twice, the task result will be updated with the latest"
        " results.”"
    )

    def prepare(self) -> None:
        set_up(self.url, "django_q")

    def add_many(self, tasks: Sequence[Any]) -> None:
        from django.db import transaction

        with transaction.atomic():
            for number, due in tasks:
                self.add(number, due)

    def add(self, number: int, due: float) -> None:
        from django_q.tasks import async_task, schedule

        if due > time():
            schedule(TICK, number, schedule_type="O", repeats=1, next_run=as_datetime(due))
        else:
            async_task(TICK, number)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "django", "qcluster", "-v", "0")]

    def is_empty(self) -> bool:
        from django_q.models import OrmQ

        return not OrmQ.objects.exists()

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("django-q2", "Django")}


CONTENDER = DjangoQ2
