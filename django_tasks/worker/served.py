"""The codes of a worker, for its row."""

from typing import NamedTuple

from django_tasks.handlers.registry import get_task_handlers, revision
from django_tasks.worker.config import WorkerConfig


class Served(NamedTuple):
    """The codes that a worker has handlers for and may claim, and the revision that has them."""

    revision: int
    codes: tuple[str, ...]


NOTHING = Served(-1, ())


def served_by(config: WorkerConfig, known: Served = NOTHING) -> Served:
    """The codes of a worker as they are now; ``known`` itself if no handler has come since.

    For the thread of the heartbeats: it takes no lock and calls nobody.
    """
    now = revision()  # before the handlers: one that comes meanwhile is found the next time
    if now == known.revision:
        return known
    codes = config.codes
    handlers = get_task_handlers()
    return Served(now, tuple(sorted(code for code in handlers if not codes or code in codes)))
