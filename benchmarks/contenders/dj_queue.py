"""dj_queue: a database backend of Django's tasks framework, after Rails' Solid Queue."""

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.contenders.base import Contender, as_datetime, python
from benchmarks.contenders.django_setup import set_up


class DjQueue(Contender):
    settings = (
        "dj_queue in fork mode: 2 workers with 4 threads each that poll every 0.1 s, a dispatcher"
        " that polls every second, finished jobs deleted; enqueue_all"
    )

    caveat = (
        "“does not add an automatic retry policy or backoff engine”; work that a worker leaves"
        " behind is kept “as failed work that operators can inspect and retry”"
    )

    def prepare(self) -> None:
        set_up(self.url, "dj_queue")

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        task = self._task(due)
        return [(task, [number], {}) for number in numbers]

    def add_many(self, tasks: Sequence[Any]) -> None:
        from benchmarks.contenders.backport import tick

        tick.get_backend().enqueue_all(tasks)

    def add(self, number: int, due: float) -> None:
        self._task(due).enqueue(number)

    def _task(self, due: float) -> Any:
        from benchmarks.contenders.backport import tick

        return tick.using(run_after=as_datetime(due)) if due > time() else tick

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "django", "dj_queue", "--skip-recurring")]

    def is_empty(self) -> bool:
        from dj_queue import models

        left = (models.ReadyExecution, models.ScheduledExecution, models.ClaimedExecution)
        return not any(each.objects.exists() for each in left)

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("dj-queue", "Django")}


CONTENDER = DjQueue
