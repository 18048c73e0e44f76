"""Questions about a claimed row: is it still this claim's, is it cancelled, can it be seen here."""

from collections.abc import Sequence
from typing import NamedTuple

from django_tasks.store.bounds import bounded_transaction
from django_tasks.store.dialects import Dialect, dialect_of, placeholders
from django_tasks.store.ownership import Fence
from django_tasks.store.statuses import OWNED_SQL, STATUS_OF_FOUND
from django_tasks.values.claimed import Claimed
from django_tasks.values.status import Status

# How long to wait for a row that somebody is just writing, in seconds.
LONGEST_WAIT = 5.0


def await_claim(claimed: Claimed, *, using: str) -> None:
    """Before an ``atomic`` run: have this thread's connection see the claim.

    It may lead to another Galera node than the poller's, and that one may be a moment behind. To
    it the end of the run would look like that of a row which somebody has moved.
    """
    dialect = dialect_of(using)
    if dialect.is_galera:
        template = "SELECT 1 FROM {task} WHERE id = %s AND version >= %s"
        if not dialect.fetch(template, [claimed.id, claimed.version]):
            dialect.catch_up()


def is_ours(claimed: Claimed, *, using: str) -> bool:
    """Tell if a row is still owned by this very claim, even if it was moved meanwhile.

    Race: somebody else's transaction is just ending it. The row is locked, so its commit is waited
    for: five seconds at most. Database errors pass, that of this wait among them.
    """
    with bounded_transaction(using, LONGEST_WAIT):
        return bool(owned(dialect_of(using), [claimed]))


def is_cancelled(claimed: Claimed, *, using: str) -> bool:
    """Tell if the run of ``claimed`` should stop: cancelled, or no longer ours. A plain read."""
    dialect = dialect_of(using)
    template = (
        "SELECT 1 FROM {task} WHERE id = %s AND claimed_by = %s"
        f" AND status <> {Status.CANCELLING:d}"
    )
    params = [claimed.id, claimed.worker_id]
    if dialect.fetch(template, params):
        return False
    dialect.catch_up()  # a node that has not heard of the claim yet does not know
    return not (dialect.is_galera and dialect.fetch(template, params))


class Owned(NamedTuple):
    """A row that is still ours."""

    fence: Fence
    status: int


def owned(dialect: Dialect, claims: Sequence[Claimed]) -> list[Owned]:
    """The rows of these claims that are still ours, locked.

    "Ours" is by owner and time of claim: the same worker may have claimed the row again since.
    """
    if not claims:
        return []
    ours = {
        (claim.id, claim.worker_id, dialect.from_column(dialect.to_column(claim.claim_time)))
        for claim in claims
    }
    ids = sorted(claim.id for claim in claims)
    template = (
        "SELECT id, version, claimed_by, status, claim_time FROM {task}"
        f" WHERE id IN ({placeholders(len(ids))}) AND {STATUS_OF_FOUND} IN {OWNED_SQL}"
        f" ORDER BY id{dialect.lock}"
    )
    return [
        Owned(Fence(*row[:3]), row[3])
        for row in dialect.fetch(template, ids)
        if row[4] is not None and (row[0], row[2], dialect.from_column(row[4])) in ours
    ]
