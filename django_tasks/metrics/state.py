"""The state of one database at a moment, by a bounded number of rows of each kind."""

from dataclasses import dataclass
from datetime import datetime

from django_tasks.handlers.finders import known_handlers
from django_tasks.reads import backlog
from django_tasks.reads.backlog import CountedLane
from django_tasks.reads.words import Amount
from django_tasks.reads.workers import WorkerState, held, workers
from django_tasks.store import clock, lanes
from django_tasks.store.backlog import HeldTasks
from django_tasks.store.lanes import Lane

# Rows that are counted in all lanes together, of those that are due and of those that failed. The
# dashboard counts more, and is not asked every few seconds.
MOST_COUNTED = 500


@dataclass(frozen=True, kw_only=True)
class State:
    """All that gauges tell; ``now`` is the database's clock.

    ``lanes`` are all in which tasks wait; ``free`` are those that are not paused as a whole.
    """

    now: datetime
    lanes: tuple[Lane, ...]
    free: tuple[CountedLane, ...]
    held: tuple[HeldTasks, ...]
    holds_more: bool
    failed: dict[str, Amount]
    workers: tuple[WorkerState, ...]
    pauses: int

    def codes(self) -> set[str]:
        """Each code that anything names: rows, workers, the handlers of this project."""
        return {
            *known_handlers(),
            *(lane.biz_code for lane in self.lanes),
            *(each.biz_code for each in self.held),
            *self.failed,
            *(code for worker in self.workers for code in worker.codes or ()),
        }

    def queues(self) -> set[str]:
        """Each queue that a waiting task or a worker names."""
        served = {queue for worker in self.workers for queue in worker.queues}
        return served | {lane.queue for lane in self.lanes}


def look(*, using: str) -> State:
    """Look at everything once: the number of statements does not depend on what there is."""
    now = clock.now(using)
    groups, more = held(using=using)
    found = lanes.look_everywhere(using=using)
    free = backlog.count_waiting(found.free(), now, using=using, most_counted=MOST_COUNTED)
    return State(
        now=now,
        lanes=tuple(found.lanes),
        free=tuple(free),
        held=tuple(groups),
        holds_more=more,
        failed=backlog.failed_by_code(using=using, most_counted=MOST_COUNTED),
        # After the claims: a worker that has come since cannot be missed as the owner of one.
        workers=tuple(workers(using=using, now=now)),
        pauses=len(found.pauses),
    )
