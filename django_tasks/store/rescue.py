"""Take the claims of dead workers back.

Races: the dead worker is not dead and finishes after all (it was fenced before, and its finish
names an owner that the row no longer has); two workers rescue at once (the rows are locked, then
written only where the dead one still owns them).
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from django.utils.translation import gettext as _

from django_tasks.models import Status
from django_tasks.store.claim import OWNED_SQL
from django_tasks.store.claimed import SUSPICIOUS_RESCUES
from django_tasks.store.dialects import dialect_of, marks
from django_tasks.store.leave import Key, Leaving, leave, remove
from django_tasks.store.transactions import retried, write_transaction

ROWS_AT_ONCE = 500


class Orphan(NamedTuple):
    """A row that a dead worker owned."""

    id: int
    version: int
    owner: int
    status: int
    attempts: int
    rescues: int
    last_error: str
    biz_code: str
    biz_num: str


class Rescued(NamedTuple):
    """What one rescue did: how many rows are free again, and which have FAILED for it."""

    count: int
    failed: list[Orphan]


@retried
def rescue(
    owners: Sequence[int], attempts_allowed: Callable[[str], int], now: datetime, *, using: str
) -> Rescued:
    """Free up to 500 rows of dead workers; call again until ``count`` is 0.

    ``attempts_allowed`` answers for a ``biz_code``: a row that has run alone and killed its worker
    that often is FAILED.
    """
    if not owners:
        return Rescued(0, [])
    with write_transaction(using):
        dialect = dialect_of(using)
        orphans = [
            Orphan(*row)
            for row in dialect.fetch(
                "SELECT id, version, claimed_by, status, attempts, rescues, last_error, biz_code,"
                f" biz_num FROM {{task}} WHERE status IN {OWNED_SQL}"
                f" AND claimed_by IN ({marks(len(owners))}) ORDER BY id LIMIT {ROWS_AT_ONCE}"
                f"{dialect.lock}",
                list(owners),
            )
        ]
        erased = [Key(*row[:3]) for row in orphans if row.status == Status.CANCELLING]
        kept = [row for row in orphans if row.status != Status.CANCELLING]
        leaving = [after_rescue(row, attempts_allowed(row.biz_code)) for row in kept]
        gone = remove(dialect, erased, f"({Status.CANCELLING:d})") | leave(dialect, leaving, now)
        failed = {row.id for row in leaving if row.failed} & gone
        return Rescued(len(gone), [row for row in kept if row.id in failed])


def after_rescue(row: Orphan, attempts_allowed: int) -> Leaving:
    """What becomes of a row whose worker died.

    A claim may sit unstarted in a buffer when another task kills the process, so a death proves
    nothing against a row, unless the row ran alone: then it counts as a failed attempt.
    """
    key = Key(*row[:3])
    if row.rescues < SUSPICIOUS_RESCUES:
        return Leaving(*key, False, None, None, row.attempts, row.rescues + 1, row.last_error)
    attempts = row.attempts + 1
    error = _("The worker process died while it ran this task alone.")
    return Leaving(*key, attempts >= attempts_allowed, None, None, attempts, row.rescues, error)
