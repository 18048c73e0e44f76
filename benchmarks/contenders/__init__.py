"""Who is measured. Each lives in a file of its own, and knows none of the others."""

from typing import NamedTuple

SERVED = ("sqlite", "mariadb", "postgresql")


class Entry(NamedTuple):
    """Where a contender lives, in which environment it runs, and what can be asked of it."""

    title: str
    module: str
    databases: tuple[str, ...]
    measures: tuple[str, ...]
    neighbour: bool = False
    pace: float = 1.0  # it gets this share of the tasks: the slow would take hours


CATALOGUE: dict[str, Entry] = {
    "ours": Entry("django_tasks", "ours", SERVED, ("drain", "enqueue")),
    "floor": Entry("raw driver", "floor", SERVED, ("drain", "enqueue")),
    "seed": Entry("seed design", "seed", SERVED, ("drain", "enqueue"), pace=0.05),
}
