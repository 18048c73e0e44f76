"""django_tasks with tasks that cancel an order each: see ``ours_work``."""

from benchmarks.contenders.ours_work import Batch

CONTENDER = Batch
