"""The contenders. Each lives in a file of its own, and knows none of the others."""

from typing import NamedTuple

SERVED = ("sqlite", "mariadb", "postgresql")
PLACES = (*SERVED, "redis")
ANYBODY = ("drain", "enqueue", "lateness", "pickup", "idle")
OWN = (
    "history",
    "claim",
    "processes",
    "waste",
    "handlers",
    "blocking",
    "long",
    "held",
    "busy",
    "lanes",
)
# Of backends of Django 6's tasks framework: see ``contenders.framework``.
DJANGO_6 = "neighbours-django-6"
FUNCTIONS = ("functions", "function-calls")


class Entry(NamedTuple):
    """A contender: its module, its environment, and the measures that it can be asked for."""

    module: str
    databases: tuple[str, ...]
    measures: tuple[str, ...]
    home: str = ""  # the requirements of its environment, for a neighbour
    pace: float = 1.0  # it gets this share of the tasks: the slow would take hours


def _neighbour(
    module: str, databases: tuple[str, ...], pace: float, *besides: str, home: str = "neighbours"
) -> Entry:
    return Entry(module, databases, (*ANYBODY, *besides), home, pace)


CATALOGUE: dict[str, Entry] = {
    "ours": Entry("ours", SERVED, (*ANYBODY, *OWN)),
    "ours-history": Entry("ours_history", SERVED, ("history",)),
    "ours-plain": Entry("ours_plain", SERVED, ("work",), pace=0.2),
    "ours-atomic": Entry("ours_atomic", SERVED, ("work",), pace=0.2),
    "ours-batch": Entry("ours_batch", SERVED, ("work",)),
    "ours-tasks": Entry("ours_tasks", SERVED, FUNCTIONS),
    "floor-single": Entry("floor_single", SERVED, ("work",), pace=0.2),
    "floor-batch": Entry("floor_work", SERVED, ("work",)),
    "floor": Entry("floor", SERVED, ("drain", "enqueue", "processes", "long", "held")),
    "seed": Entry("seed", SERVED, ANYBODY, pace=0.05),
    "django-tasks-db": _neighbour("django_tasks_db", SERVED, 0.05, *FUNCTIONS, home=DJANGO_6),
    "django-q2": _neighbour("django_q2", SERVED, 0.05),
    "django-ox": _neighbour("django_ox", SERVED, 0.05, *FUNCTIONS, home=DJANGO_6),
    "dj-queue": _neighbour("dj_queue", SERVED, 0.05, home=DJANGO_6),
    "apscheduler": _neighbour("apscheduler", SERVED, 0.05),
    "huey": _neighbour("huey", ("sqlite",), 0.5),
    "procrastinate": _neighbour("procrastinate", ("postgresql",), 0.05),
    "pgqueuer": _neighbour("pgqueuer", ("postgresql",), 1.0, "held"),
    "graphile-worker": _neighbour("graphile_worker", ("postgresql",), 1.0, "held"),
    "awa": _neighbour("awa", ("postgresql",), 1.0, "held"),
    "celery": _neighbour("celery", ("redis",), 0.2),
    "alone": Entry("alone", SERVED, ("handlers",)),
}
