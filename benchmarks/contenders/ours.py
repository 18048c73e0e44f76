"""django_tasks as it is: ``manage.py starttask`` with default settings, in a project of its own."""

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import django

from benchmarks.contenders.base import FILL, Contender, as_datetime, python

# Rows of consecutive numbers, for an INSERT … SELECT.
_SERIES = {
    "sqlite": "WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s"
    " WHERE n < {last}) {insert} SELECT {values} FROM s",
    "mysql": "{insert} SELECT {values} FROM (SELECT seq AS n FROM seq_{first}_to_{last}) AS s",
    "postgresql": "{insert} SELECT {values} FROM generate_series({first}, {last}) AS s(n)",
}


class Ours(Contender):
    settings = "manage.py starttask with default settings: 8 threads, batches of 500, log at INFO"

    # What tasks are added, and how starttask is called, where a measure asks for more.
    code = "noop"
    priority: Any = None
    payload: Any = None
    flags: tuple[str, ...] = ()

    def prepare(self) -> None:
        os.environ |= {"DATABASE_URL": self.url, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        when = as_datetime(due)
        return [self._task(number, when, self.payload) for number in numbers]

    def _task(self, number: int, when: datetime, payload: Any = None) -> Any:
        from django_tasks.api import Task

        return Task(
            biz_code=self.code,
            biz_num=str(number),
            when=when,
            biz_ext=payload,
            priority=self.priority,
        )

    def add_many(self, tasks: Sequence[Any]) -> None:
        from django_tasks.api import add_tasks

        add_tasks(tasks)

    def add(self, number: int, due: float, payload: Any = None) -> None:
        from django_tasks.api import add_task

        add_task(self._task(number, as_datetime(due), payload))

    def fill(self, numbers: range, due: float) -> None:
        """One statement for ten thousand rows; each ten thousand are due a second later."""
        for step, first in enumerate(range(numbers.start, numbers.stop, FILL)):
            last = min(first + FILL, numbers.stop) - 1
            self._insert(first, last, as_datetime(due + step))

    def _insert(self, first: int, last: int, when: datetime) -> None:
        from django.db import connection

        from django_tasks.models import Task

        row = self._task(0, when)
        row.queue, row.priority = "default", row.priority or 0
        fields = [field for field in Task._meta.concrete_fields if not field.primary_key]
        names = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
        marks = ", ".join("{number}" if f.name == "biz_num" else "%s" for f in fields)
        values = [
            field.get_db_prep_save(getattr(row, field.attname), connection)
            for field in fields
            if field.name != "biz_num"
        ]
        template = _SERIES[connection.vendor].format(
            first=first,
            last=last,
            insert=f"INSERT INTO {Task._meta.db_table} ({names})",
            values=marks.format(
                number=f"CAST(n AS {'char' if connection.vendor == 'mysql' else 'text'})"
            ),
        )
        with connection.cursor() as cursor:
            cursor.execute(template, values)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("manage.py", "starttask", "--processes", str(processes), *self.flags)]

    def is_empty(self) -> bool:
        from django_tasks.models import Task

        return not Task.objects.exists()

    def versions(self) -> dict[str, str]:
        import django_tasks

        return {"django_tasks": django_tasks.__version__, "Django": django.__version__}


CONTENDER = Ours
