"""Once a heartbeat: free what dead workers hold, and what we hold without knowing."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from django_tasks import signals
from django_tasks.handlers import history_of
from django_tasks.history import Line, keeps
from django_tasks.outcomes import Fail
from django_tasks.recurrence import attempts_of
from django_tasks.registry import handler_for
from django_tasks.store import history, workers
from django_tasks.store import rescue as store
from django_tasks.store.rescue import Orphan
from django_tasks.worker.membership import Membership


def rescue_from_dead(membership: Membership, *, using: str, thorough: bool = True) -> int:
    """Fence workers whose lease has run out, then free every row that a dead one owns.

    Returns how many rows were freed. Nothing is done unless this worker may judge others. Rows of
    workers that others have fenced are looked for when one has gone, and when ``thorough``.
    """
    if not membership.may_rescue():
        return 0
    dead = membership.dead()
    for peer in dead:
        workers.fence(peer, using=using)
    somebody_left = membership.somebody_left()
    if not (dead or somebody_left or thorough):
        return 0
    return sum(
        _rescue(owner, membership, using=using) for owner in workers.orphaning_owners(using=using)
    )


def give_back_strays(membership: Membership, held: Collection[int], *, using: str) -> int:
    """Free rows that are ours in the database only."""
    now = membership.clock.now()
    return store.give_back_strays(membership.worker_id, held, now, using=using)


def _rescue(owner: int, membership: Membership, *, using: str) -> int:
    total = 0
    while True:
        now = membership.clock.now()
        rescued = store.rescue([owner], _attempts_allowed, now, using=using)
        failed = Fail(str(store.DIED_ALONE))
        for row in rescued.failed:
            signals.tell(
                signals.task_failed, None, task=row, exception=None, error=failed.error, using=using
            )
        history.record(list(_lines(rescued.failed, failed, now)), using=using)
        total += rescued.freed
        if not rescued.freed:
            break
    if total:
        signals.tell(signals.task_rescued, None, worker_id=owner, count=total, using=using)
    return total


def _lines(rows: Iterable[Orphan], failed: Fail, now: datetime) -> Iterator[Line]:
    """The history of runs that nobody saw the end of. Their worker's name went with its row."""
    for row in rows:
        if keeps(history_of(handler_for(row.biz_code)), failed, ""):
            yield Line(
                row.biz_code,
                row.biz_num,
                row.when,
                scheduled_time=None,
                started=row.claim_time,
                ended=now,
                outcome=failed.counts_as,
                missed="",
                attempt=1 + row.attempts + row.rescues,
                worker=f"#{row.owner}",
                error=failed.error,
            )


def _attempts_allowed(row: Orphan) -> int:
    return attempts_of(row.schedule, handler_for(row.biz_code))
