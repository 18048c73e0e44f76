"""Take the claims of dead workers back.

Races: the dead worker is not dead and finishes after all (it was fenced before, and its finish
names an owner that the row no longer has); two workers rescue at once (the rows are locked, then
written only where the dead one still owns them).
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from django_tasks.sentences import on_a_line
from django_tasks.store import runs
from django_tasks.store.claim import owned_ids
from django_tasks.store.dialects import Dialect, dialect_of, flatten, placeholders
from django_tasks.store.lanes import SUSPICIOUS_RESCUES
from django_tasks.store.ownership import Fence, FreedRow, give_up, unchanged
from django_tasks.store.transactions import write_transaction
from django_tasks.values.runs import HistoryLine
from django_tasks.values.status import OWNED_SQL, STATUS_OF_FOUND

DIED_ALONE = "The worker process died while it ran this task alone."

ROWS_AT_ONCE = 2000  # a worker of many threads and batches may hold more


class Orphan(NamedTuple):
    """A row that a dead worker owned; its times are aware UTC."""

    id: int
    version: int
    owner: int
    status: int
    attempts: int
    rescues: int
    last_error: str
    biz_code: str
    biz_num: str
    schedule: str | None
    options: str | None
    when: datetime
    claim_time: datetime

    @property
    def fence(self) -> Fence:
        return Fence(self.id, self.version, self.owner)

    def __str__(self) -> str:
        return on_a_line(f"{self.biz_code}/{self.biz_num}")


class Rescued(NamedTuple):
    """The rows that one rescue has freed, and those of them that have FAILED for it."""

    freed: list[Orphan]
    failed: list[Orphan]


LineOf = Callable[[Orphan, bool], HistoryLine | None]


def _no_line(row: Orphan, has_failed: bool) -> HistoryLine | None:
    return None


def rescue(
    owners: Sequence[int],
    attempts_allowed: Callable[[Orphan], int],
    now: datetime,
    line_of: LineOf = _no_line,
    *,
    using: str,
) -> Rescued:
    """Free up to 2,000 rows of dead workers; call again until nothing is ``freed``.

    ``attempts_allowed`` answers with the attempts that a row may use. A suspected row whose worker
    dies with it is FAILED when it has used them. ``line_of`` answers for a row, and whether it has
    FAILED, with the line that the history keeps of its run. Atomic. Database errors pass,
    contention among them: nothing is repeated here, because the next cycle does so.
    """
    if not owners:
        return Rescued([], [])
    with write_transaction(using):
        dialect = dialect_of(using)
        orphans = _locked(dialect, owners, condition=_ORPHANED)
        failing: set[int] = set()

        def changed(row: Orphan) -> FreedRow:
            change = after_rescue(row, attempts_allowed(row))
            failing.update([row.id] if change.failed else [])
            return change

        freed = give_up(dialect, orphans, changed, now)
        failed = failing & freed
        lines = [line_of(row, row.id in failed) for row in orphans if row.id in freed]
        runs.write(dialect, [line for line in lines if line])
        return Rescued(
            [row for row in orphans if row.id in freed],
            [row for row in orphans if row.id in failed],
        )


def forgive(worker_id: int, guilty: Collection[int] = (), *, using: str) -> int:
    """Take a rescue off the rows that a worker abandons at its deadline; how many had one.

    Not off the rows whose ids are ``guilty`` of its end.

    An orderly stop is no death, and must not make a suspect of a long task: however many stops cut
    it off, they count as one rescue. That one stays, for the task has begun: it is no misfire.

    The rows stay the worker's until its lease has passed: their runs go on until the process ends,
    right after this. Race: a run ends now. Its finish names the version, which this leaves alone,
    and either finds the row or has removed it before. Rows that somebody holds locked are stepped
    over: one ``atomic`` run that has saved its row would keep all others from being forgiven.
    """
    dialect = dialect_of(using)
    which = f"claimed_by = %s AND status IN {OWNED_SQL} AND rescues > 0"
    if guilty:
        which += f" AND id NOT IN ({placeholders(len(guilty))})"
    with write_transaction(using):
        found = f"SELECT id FROM {{task}} WHERE {which}{dialect.lock_free_rows}"
        ids = flatten(dialect.fetch(found, [worker_id, *guilty]))
        change = (
            "UPDATE {task} SET rescues = rescues - 1"
            f" WHERE id IN ({placeholders(len(ids))}) AND {which}"
        )
        return dialect.execute(change, [*ids, worker_id, *guilty]) if ids else 0


def give_back_strays(worker_id: int, held: Collection[int], now: datetime, *, using: str) -> int:
    """Free up to 2,000 rows that a living worker owns without knowing; returns how many.

    A claim whose answer was lost with its connection leaves them. ``held`` are the ids that the
    worker does know of; it must not be claiming meanwhile. Atomic; database errors pass.
    """
    # By their ids: behind 2,000 rows that it knows of they would not be found.
    strays = sorted(owned_ids(worker_id, using=using) - set(held))[:ROWS_AT_ONCE]
    if not strays:
        return 0
    with write_transaction(using):
        dialect = dialect_of(using)
        return len(give_up(dialect, _locked(dialect, [worker_id], strays), _as_it_was, now))


def _as_it_was(row: Orphan) -> FreedRow:
    return unchanged(row.fence, row.attempts, row.rescues, row.last_error)


# Asked again under the lock: the look that found the owners and the one at the table of workers may
# have been answered by two replicas, of which one did not know a new worker yet.
_ORPHANED = " AND NOT EXISTS (SELECT 1 FROM {worker} AS w WHERE w.id = t.claimed_by)"


def _locked(
    dialect: Dialect, owners: Sequence[int], ids: Sequence[int] = (), condition: str = ""
) -> list[Orphan]:
    """Rows of ``owners``, or those with ``ids``, locked; what somebody holds locked is left out.

    Found by a plain read and locked by id: MariaDB would lock, and wait for, every row that a
    locking search passes on its way.
    """
    owned = f"IN {OWNED_SQL} AND claimed_by IN ({placeholders(len(owners))})"
    find = f"SELECT id FROM {{task}} WHERE status {owned} ORDER BY id LIMIT {ROWS_AT_ONCE}"
    ids = ids or flatten(dialect.fetch(find, list(owners)))
    if not ids:
        return []
    lock = (
        "SELECT id, version, claimed_by, status, attempts, rescues, last_error, biz_code, biz_num,"
        f" schedule, options, {{when}}, COALESCE(claim_time, {{when}}) FROM {{task}} AS t"
        f" WHERE id IN ({placeholders(len(ids))}) AND {STATUS_OF_FOUND} {owned}{condition}"
        f" ORDER BY id{dialect.lock_free_rows}"
    )
    return [
        Orphan(*facts, *map(dialect.from_column, (when, claim_time)))
        for *facts, when, claim_time in dialect.fetch(lock, [*ids, *owners])
    ]


def after_rescue(row: Orphan, attempts_allowed: int) -> FreedRow:
    """The changes of a row whose worker died.

    A claim may sit unstarted in a buffer when another task kills the process, so a death proves
    nothing against a row, unless the row ran alone: then it counts as a failed attempt.
    """
    if row.rescues < SUSPICIOUS_RESCUES:
        return FreedRow(
            *row.fence, False, None, None, row.attempts, row.rescues + 1, row.last_error
        )
    attempts = row.attempts + 1
    return FreedRow(
        *row.fence, attempts >= attempts_allowed, None, None, attempts, row.rescues, str(DIED_ALONE)
    )
