"""django-ox: another database backend of Django's tasks framework."""

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.contenders.base import Contender, as_datetime, python
from benchmarks.contenders.django_setup import set_up


class DjangoOx(Contender):
    settings = "ox_worker, 2 processes with 4 threads each, polls every second; enqueue_many"

    caveat = "“Execution is at-least-once: make tasks safe to repeat.”"

    def prepare(self) -> None:
        set_up(self.url, "django_ox")

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        return [due, [((number,), {}) for number in numbers]]

    def add_many(self, tasks: Sequence[Any]) -> None:
        from django_ox.bulk import enqueue_many

        due, calls = tasks
        enqueue_many(self._task(due), calls)

    def add(self, number: int, due: float) -> None:
        self._task(due).enqueue(number)

    def _task(self, due: float) -> Any:
        from benchmarks.contenders.backport import tick

        return tick.using(run_after=as_datetime(due)) if due > time() else tick

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "django", "ox_worker", "--processes", "2", "--concurrency", "4")]

    def is_empty(self) -> bool:
        from django_ox.models import OxTask

        return not OxTask.objects.filter(status__in=("READY", "RUNNING")).exists()

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("django-ox", "Django")}


CONTENDER = DjangoOx
