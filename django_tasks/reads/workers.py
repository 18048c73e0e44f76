"""The workers that poll a database, and the tasks that they have claimed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django_tasks.handlers.registry import terms_for
from django_tasks.models import Task, WorkerRow
from django_tasks.reads.words import Amount, counted
from django_tasks.store import backlog
from django_tasks.store.backlog import HeldTasks
from django_tasks.timezones import aware
from django_tasks.values.hosts import is_of_a_host, queue_of
from django_tasks.values.status import OWNED, Status, WorkerWish

# More rows are not read: a cluster has as many workers as it has processes.
MOST_WORKERS = 1000
MOST_CLAIMED = 5000
# A worker sends a heartbeat three times in a lease; after two it should have sent one.
LATE_SHARE = 2 / 3


class WorkerState(NamedTuple):
    """One worker as it has last described itself. ``silent``: seconds since its heartbeat.

    Empty ``queues`` means all; ``codes`` of None means that it does not say (an older release).
    """

    id: int
    name: str
    host: str
    pid: int
    version: str
    state: str
    wish: str
    started: datetime
    heartbeat: datetime
    silent: float
    lease: float
    threads: int
    busy: int
    memory: int
    queues: tuple[str, ...]
    codes: frozenset[str] | None

    @property
    def is_alive(self) -> bool:
        """Tell if its lease has not passed."""
        return self.silent <= self.lease

    @property
    def is_late(self) -> bool:
        """Tell if it should have sent a heartbeat by now."""
        return self.silent > self.lease * LATE_SHARE

    @property
    def late(self) -> float:
        """Seconds that its heartbeat is late."""
        return max(0.0, self.silent - self.lease / 3)

    @property
    def is_quiet(self) -> bool:
        """Tell if it claims nothing: it was asked to, it stops, or it is rejected."""
        return self.wish != WorkerWish.NONE or self.state != "running"

    @property
    def is_rejected(self) -> bool:
        """Tell if the server rejects a statement of it."""
        return self.state == "rejected"

    @property
    def is_working(self) -> bool:
        """Tell if it is alive and claims tasks."""
        return self.is_alive and not self.is_quiet

    @property
    def free(self) -> int:
        """The number of threads that run nothing."""
        return max(0, self.threads - self.busy)

    def knows(self, code: str) -> bool:
        """Tell if it may have a handler for a code."""
        return self.codes is None or code in self.codes

    def serves(self, queue: str) -> bool:
        """Tell if it takes tasks of a queue; of a host's own, if it is on that host."""
        if is_of_a_host(queue):
            return queue == queue_of(self.host or self.name.partition(":")[0])
        return not self.queues or queue in self.queues


class Claim(NamedTuple):
    """A task that a worker has claimed: it runs, or waits for one of the worker's threads."""

    id: int
    biz_code: str
    biz_num: str
    status: Status
    worker: int | None
    since: datetime | None


@dataclass(frozen=True)
class Claims:
    """The tasks that workers have claimed, the longest first; ``is_more`` if there are others."""

    rows: tuple[Claim, ...]
    is_more: bool

    def count(self) -> Amount:
        return Amount(len(self.rows), self.is_more)

    def stuck(self, workers: Iterable[WorkerState]) -> list[Claim]:
        """Those whose worker is gone, or silent for longer than its lease."""
        alive = {worker.id for worker in workers if worker.is_alive}
        return [claim for claim in self.rows if claim.worker not in alive]


def workers(*, using: str, now: datetime) -> list[WorkerState]:
    """All workers of the table, by name; those that are silent as well."""
    rows = WorkerRow._base_manager.using(using).order_by("id")[:MOST_WORKERS]
    return sorted((worker_of(row, now) for row in rows), key=lambda worker: worker.name)


def obstacle(found: Iterable[WorkerState], queue: str, code: str) -> tuple[str, list[WorkerState]]:
    """The reason why no worker takes tasks of a code in a queue, and the workers that could.

    "no worker" is alive, none serves the "queue", none of these has a "handler", or all that have
    one are "quiet"; empty if one may take them.
    """
    alive = [worker for worker in found if worker.is_alive]
    serving = [worker for worker in alive if _serves(worker, queue, code)]
    able = [worker for worker in serving if worker.knows(code)]
    for kind, some in (("no worker", alive), ("queue", serving), ("handler", able)):
        if not some:
            return kind, able
    return ("quiet" if all(worker.is_quiet for worker in able) else ""), able


def _serves(worker: WorkerState, queue: str, code: str) -> bool:
    if is_of_a_host(queue) and worker.queues and terms_for(code).queue not in worker.queues:
        return False
    return worker.serves(queue)


def name_of(worker: WorkerState | WorkerRow, named: bool) -> str:
    """Its name, which tells its host and process; ``named`` False: its number in place of it."""
    return worker.name if named else f"#{worker.id}"


def worker_of(row: WorkerRow, now: datetime) -> WorkerState:
    """A row as plain values."""
    heartbeat = aware("heartbeat", row.heartbeat)
    codes = frozenset(map(str, _listed(row.codes)))
    return WorkerState(
        id=row.pk,
        name=row.name,
        host=row.host,
        pid=row.pid,
        version=row.version,
        state=row.state,
        wish=row.wish,
        started=aware("started", row.started),
        heartbeat=heartbeat,
        silent=(now - heartbeat).total_seconds(),
        lease=row.lease,
        threads=row.threads,
        busy=row.busy,
        memory=row.memory,
        queues=tuple(map(str, _listed(row.queues))),
        # A release that knows nothing of the column leaves its version empty as well.
        codes=codes if codes or row.version else None,
    )


def _listed(value: Any) -> list[Any]:
    """A list of a JSON column, which anybody may have written."""
    return value if isinstance(value, list) else []


def claims(*, using: str, worker: int | None = None) -> Claims:
    """The tasks that are claimed, by all workers or by one; each is a row of the claim index."""
    rows = Task._base_manager.using(using).filter(status__in=OWNED)
    if worker is not None:
        rows = rows.filter(claimed_by=worker)
    columns = ("id", "biz_code", "biz_num", "status", "claimed_by", "claim_time")
    found = [
        Claim(row_id, code, num, Status(status), owner, since and aware("claim_time", since))
        for row_id, code, num, status, owner, since in rows.values_list(*columns)[
            : MOST_CLAIMED + 1
        ]
    ]
    is_more = len(found) > MOST_CLAIMED
    ordered = sorted(found[:MOST_CLAIMED], key=_age)
    return Claims(tuple(ordered), is_more)


def _age(claim: Claim) -> tuple[bool, Any, int]:
    return claim.since is None, claim.since or claim.id, claim.id


def held(*, using: str) -> tuple[list[HeldTasks], bool]:
    """Up to MOST_CLAIMED claimed tasks by code and worker; True if there may be more."""
    found = backlog.held(MOST_CLAIMED, using=using)
    return found, sum(each.number for each in found) == MOST_CLAIMED


def running_by_code(claimed: Claims) -> dict[str, Amount]:
    """The number of claimed tasks of each code."""
    counts = Counter(claim.biz_code for claim in claimed.rows)
    return {
        code: counted(count, MOST_CLAIMED)._replace(is_more=claimed.is_more)
        for code, count in counts.items()
    }
