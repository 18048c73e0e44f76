"""A claimed row while it runs: is it still this claim's, is it cancelled, what it saves."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError, connections

from django_tasks.exceptions import ClaimLost
from django_tasks.sentences import sentence as _
from django_tasks.store.dialects import Dialect, dialect_of, placeholders
from django_tasks.store.ownership import Fence
from django_tasks.store.timeouts import bounded_transaction
from django_tasks.store.transactions import retried
from django_tasks.values.claimed import Claimed, Progress
from django_tasks.values.status import FINISHABLE_SQL, OWNED_SQL, STATUS_OF_FOUND, Status

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


# The row of this very claim, and not one that the same worker has claimed again since. A client
# that changes what the row says without moving it leaves its mark in ``update_time``.
_THIS_CLAIM = (
    "id = %s AND claimed_by = %s AND claim_time = %s AND update_time = claim_time AND version = %s"
)


def unmoved(claims: Sequence[Claimed], *, using: str) -> set[int]:
    """The ids of claims whose rows nobody has touched since: they are to run, as they were claimed.

    Of one statement that has claimed them all. A plain read. Race: a client touches one right after
    it. To that client the run was under way.
    """
    dialect = dialect_of(using)
    template = (
        "SELECT id, version FROM {task} WHERE claimed_by = %s AND claim_time = %s"
        f" AND update_time = claim_time AND {STATUS_OF_FOUND} = {Status.RUNNING:d}"
        f" AND id IN ({placeholders(len(claims))})"
    )
    moment = dialect.to_column(claims[0].claim_time)
    params = [claims[0].worker_id, moment, *sorted(claim.id for claim in claims)]
    found = set(dialect.fetch(template, params))
    return {claim.id for claim in claims if claim[:2] in found}


@retried
def save_payload(claimed: Claimed, text: str | None, *, using: str) -> bool:
    """Write the payload of a running task; False if what it says has been changed meanwhile.

    Races: the task is added again, cancelled or updated (version or update_time moved: theirs
    stands), or rescued (the owner is another). Raises ClaimLost if it is not this claim's any more.
    """
    dialect = dialect_of(using)
    template = (
        f"UPDATE {{task}} SET biz_ext = {dialect.cast_json('%s')} WHERE {_THIS_CLAIM}"
        f" AND {STATUS_OF_FOUND} IN {FINISHABLE_SQL}"
    )
    params = [text, *_this_claim(dialect, claimed)]
    if dialect.execute(template, params):
        return True
    if not is_ours(claimed, using=using):
        raise ClaimLost(_("%(task)s was taken over while it ran", task=claimed), [claimed.id])
    return False


def save_progress(claimed: Claimed, progress: Progress, *, using: str) -> None:
    """Write how far a run is, if its row is still this claim's; a word for people, no more.

    Not inside a transaction, where nobody would see it and the row would stay locked.
    """
    if _is_in_transaction(using):
        return
    text = json.dumps(progress._asdict(), ensure_ascii=False)
    with suppress(DatabaseError, InterfaceError):
        dialect = dialect_of(using)
        template = (
            f"UPDATE {{task}} SET progress = {dialect.cast_json('%s')}"
            " WHERE id = %s AND claimed_by = %s AND claim_time = %s"
        )
        dialect.execute(template, [text, *_this_claim(dialect, claimed)[:3]])


def _is_in_transaction(using: str) -> bool:
    return connections[using].in_atomic_block


def _this_claim(dialect: Dialect, claimed: Claimed) -> list[Any]:
    moment = dialect.to_column(claimed.claim_time)
    return [claimed.id, claimed.worker_id, moment, claimed.version]


class Owned(NamedTuple):
    """A row that is still ours; its times are aware UTC."""

    fence: Fence
    status: int
    when: datetime
    scheduled_time: datetime | None


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
        "SELECT id, version, claimed_by, claim_time, status, {when}, scheduled_time FROM {task}"
        f" WHERE id IN ({placeholders(len(ids))}) AND {STATUS_OF_FOUND} IN {OWNED_SQL}"
        f" ORDER BY id{dialect.lock}"
    )
    time = dialect.from_column
    return [
        Owned(Fence(*row[:3]), row[4], time(row[5]), row[6] and time(row[6]))
        for row in dialect.fetch(template, ids)
        if row[3] is not None and (row[0], row[2], time(row[3])) in ours
    ]
