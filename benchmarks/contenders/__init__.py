"""Who is measured. Each lives in a file of its own, and knows none of the others."""

from typing import NamedTuple

SERVED = ("sqlite", "mariadb", "postgresql")
ANYBODY = ("drain", "enqueue", "lateness", "pickup", "idle")
OWN = ("claim", "processes", "waste", "handlers", "blocking", "long")


class Entry(NamedTuple):
    """Where a contender lives, in which environment it runs, and what can be asked of it."""

    title: str
    module: str
    databases: tuple[str, ...]
    measures: tuple[str, ...]
    neighbour: bool = False
    pace: float = 1.0  # it gets this share of the tasks: the slow would take hours


CATALOGUE: dict[str, Entry] = {
    "ours": Entry("django_tasks", "ours", SERVED, (*ANYBODY, *OWN)),
    "floor": Entry("raw driver", "floor", SERVED, ("drain", "enqueue", "processes", "long")),
    "seed": Entry("seed design", "seed", SERVED, ANYBODY, pace=0.05),
    "alone": Entry("threads alone", "alone", SERVED, ("handlers",)),
}
