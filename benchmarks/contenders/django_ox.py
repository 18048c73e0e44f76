"""django-ox: another database backend of Django's tasks framework."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.contenders.base import python
from benchmarks.contenders.framework import Backend


class DjangoOx(Backend):
    app, package = "django_ox", "django-ox"
    settings = "ox_worker, 2 processes with 4 threads each, polls every second; enqueue_many"

    caveat = "“Execution is at-least-once: make tasks safe to repeat.”"

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        return [due, [((number,), {}) for number in numbers]]

    def add_many(self, tasks: Sequence[Any]) -> None:
        from django_ox.bulk import enqueue_many

        due, calls = tasks
        enqueue_many(self.task(due), calls)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "django", "ox_worker", "--processes", "2", "--concurrency", "4")]

    def is_empty(self) -> bool:
        from django_ox.models import OxTask

        return not OxTask.objects.filter(status__in=("READY", "RUNNING")).exists()


CONTENDER = DjangoOx
