"""django_tasks as it is: ``manage.py starttask`` with default settings, in a project of its own."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import django

from benchmarks.contenders.base import Contender, as_datetime, python


class Ours(Contender):
    settings = "manage.py starttask with default settings: 8 threads, batches of 500, log at INFO"

    def prepare(self) -> None:
        os.environ |= {"DATABASE_URL": self.url, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        from django_tasks.api import Task

        when = as_datetime(due)
        return [Task(biz_code="noop", biz_num=str(number), when=when) for number in numbers]

    def add_many(self, tasks: Sequence[Any]) -> None:
        from django_tasks.api import add_tasks

        add_tasks(tasks)

    def add(self, number: int, due: float) -> None:
        from django_tasks.api import Task, add_task

        add_task(Task(biz_code="noop", biz_num=str(number), when=as_datetime(due)))

    def workers(self, processes: int) -> list[list[str]]:
        many = ["--processes", str(processes)] if processes > 1 else []
        return [python("manage.py", "starttask", *many)]

    def is_empty(self) -> bool:
        from django_tasks.models import Task

        return not Task.objects.exists()

    def versions(self) -> dict[str, str]:
        import django_tasks

        return {"django_tasks": django_tasks.__version__, "Django": django.__version__}


CONTENDER = Ours
