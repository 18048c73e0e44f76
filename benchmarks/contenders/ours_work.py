"""django_tasks with tasks that cancel an order each: one by one or in batches, atomic or not."""

from collections.abc import Sequence
from typing import Any

from benchmarks import orders
from benchmarks.contenders.ours import Ours


class Working(Ours):
    """A subclass says by its ``code`` which handler does the work."""

    def prepare(self) -> None:
        super().prepare()
        orders.create(self.url)

    def add_many(self, tasks: Sequence[Any]) -> None:
        orders.fill(self.url, (int(task.biz_num) for task in tasks))
        super().add_many(tasks)


class Plain(Working):
    settings = "as ours; each task cancels an order, in autocommit"
    code = "work"


class Atomic(Working):
    settings = "as ours; each task cancels an order, atomic"
    code = "work_atomic"


class Batch(Working):
    settings = "as ours; batches of 500 that cancel their orders by one statement, atomic"
    code = "work_batch"
