"""django_tasks as a database backend of Django's tasks framework."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.contenders.base import python
from benchmarks.contenders.framework import Backend

FLAGS = ("--processes", "2", "--threads", "4")


class OursTasks(Backend):
    app = "django_tasks"
    settings = (
        "DatabaseBackend, starttask with 2 processes of 4 threads each, log at INFO;"
        " enqueue_many. Every call has a line in the history with its result"
    )

    caveat = (
        "“If a process dies after the effect and before the end is written, the task runs again.”"
    )

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        return [due, [((number,), {}) for number in numbers]]

    def add_many(self, tasks: Sequence[Any]) -> None:
        from django_tasks.backend import enqueue_many

        due, calls = tasks
        enqueue_many(self.task(due), calls)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "django", "starttask", *FLAGS)]

    def is_empty(self) -> bool:
        from django_tasks.models import Task

        return not Task.objects.exists()

    def versions(self) -> dict[str, str]:
        import django

        import django_tasks

        return {"django_tasks": django_tasks.__version__, "Django": django.__version__}


CONTENDER = OursTasks
