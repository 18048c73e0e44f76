"""dj_queue: a database backend of Django's tasks framework, after Rails' Solid Queue."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.contenders.base import python
from benchmarks.contenders.framework import Backend


class DjQueue(Backend):
    app, package = "dj_queue", "dj-queue"
    settings = (
        "dj_queue in fork mode: 2 workers with 4 threads each that poll every 0.1 s, a dispatcher"
        " that polls every second, finished jobs deleted; enqueue_all"
    )

    caveat = (
        "“does not add an automatic retry policy or backoff engine”; work that a worker leaves"
        " behind is kept “as failed work that operators can inspect and retry”"
    )

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        task = self.task(due)
        return [(task, [number], {}) for number in numbers]

    def add_many(self, tasks: Sequence[Any]) -> None:
        from benchmarks.contenders.function import tick

        tick.get_backend().enqueue_all(tasks)

    def workers(self, processes: int) -> list[list[str]]:
        return [python("-m", "django", "dj_queue", "--skip-recurring")]

    def is_empty(self) -> bool:
        from dj_queue import models

        left = (models.ReadyExecution, models.ScheduledExecution, models.ClaimedExecution)
        return not any(each.objects.exists() for each in left)


CONTENDER = DjQueue
