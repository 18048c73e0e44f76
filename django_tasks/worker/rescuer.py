"""Once a heartbeat: free what dead workers hold, and what we hold without knowing."""

from collections.abc import Collection

from django_tasks import signals
from django_tasks.handlers import attempts_allowed
from django_tasks.registry import handler_for
from django_tasks.store import rescue as store
from django_tasks.store import workers
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
        for row in rescued.failed:
            error = store.DIED_ALONE
            signals.tell(
                signals.task_failed, None, task=row, exception=None, error=str(error), using=using
            )
        total += rescued.freed
        if not rescued.freed:
            break
    if total:
        signals.tell(signals.task_rescued, None, worker_id=owner, count=total, using=using)
    return total


def _attempts_allowed(biz_code: str) -> int:
    return attempts_allowed(handler_for(biz_code))
