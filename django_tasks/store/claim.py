"""Take due tasks for a worker.

``look`` finds where tasks wait, ``claim`` takes a batch from one of them. Race: any number of
workers claim, and clients move, cancel and pause, at the same time. A row is ours only if it was
still PENDING and still the version we had read when our own statement changed it.
"""

import random
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django_tasks.store.dialects import Dialect, dialect_of, placeholders
from django_tasks.store.pauses import Scope
from django_tasks.store.statuses import OWNED_SQL
from django_tasks.store.transactions import write_transaction
from django_tasks.values.claimed import Claimed


# What a claim reads of each row: not what all rows of its lane have in common, which each driver
# would make a new text of for each row.
def _claimed_columns(dialect: Dialect) -> str:
    when, created = dialect.readable("{when}"), dialect.readable("create_time")
    return (
        f"id, version, biz_num, {when}, biz_ext, attempts, rescues, {created}, last_error,"
        f" schedule, {dialect.readable('scheduled_time')}"
    )


# From this many rescues on, a row is claimed alone: twice its worker died with it.
SUSPICIOUS_RESCUES = 2


class Lane(NamedTuple):
    """Pending tasks that wait together, and when the first of them is due (aware UTC)."""

    queue: str
    priority: int
    biz_code: str
    first: datetime


class Look(NamedTuple):
    """Where tasks wait that may start, in the order to claim them, and what is paused."""

    lanes: list[Lane]
    pauses: frozenset[Scope]


class Claimer(NamedTuple):
    """Who claims, how many workers may be after the same rows (itself included), and how many of
    them are older."""

    worker_id: int
    workers: int = 1
    rank: int = 0


# One seek of the claim index a lane, however many rows wait in it. MySQL and MariaDB have the
# loose index scan built in ("Using index for group-by"). Elsewhere a recursive query hops from
# lane to lane: to the next code of the same queue and priority, or the next priority of the same
# queue, or the next queue. (One comparison of all three columns would use the index for the first
# of them only: 590 ms instead of 0.12 with 250,000 rows on SQLite.)
# The columns are looked up one by one, because PostgreSQL would join with a scan of the whole table
# as long as its statistics have not noticed that it has grown.
# What is paused comes along, without a priority: a statement of its own would be one more a second
# in every idle worker.
_AND_PAUSES = """
UNION ALL SELECT queue, NULL, biz_code, NULL FROM {pause}"""
_GROUPED_LANES = f"""
SELECT queue, priority, biz_code, MIN({{when}}) FROM {{task}}
WHERE status = 0 GROUP BY status, queue, priority, biz_code{_AND_PAUSES}"""
_HOPPED_LANES = f"""
WITH RECURSIVE head(id) AS (
    SELECT (SELECT id FROM {{task}} WHERE status = 0
            ORDER BY queue, priority, biz_code, {{when}} LIMIT 1)
  UNION ALL
    SELECT COALESCE(
        (SELECT id FROM {{task}} AS t WHERE t.status = 0 AND t.queue = here.queue
            AND t.priority = here.priority AND t.biz_code > here.biz_code
         ORDER BY t.biz_code, t.{{when}} LIMIT 1),
        (SELECT id FROM {{task}} AS t WHERE t.status = 0 AND t.queue = here.queue
            AND t.priority > here.priority
         ORDER BY t.priority, t.biz_code, t.{{when}} LIMIT 1),
        (SELECT id FROM {{task}} AS t WHERE t.status = 0 AND t.queue > here.queue
         ORDER BY t.queue, t.priority, t.biz_code, t.{{when}} LIMIT 1))
    FROM head CROSS JOIN {{task}} AS here WHERE here.id = head.id
)
SELECT (SELECT queue FROM {{task}} AS t WHERE t.id = head.id),
       (SELECT priority FROM {{task}} AS t WHERE t.id = head.id),
       (SELECT biz_code FROM {{task}} AS t WHERE t.id = head.id),
       (SELECT {{when}} FROM {{task}} AS t WHERE t.id = head.id)
FROM head WHERE id IS NOT NULL{_AND_PAUSES}"""

_DUE = "status = 0 AND queue = %s AND priority = %s AND biz_code = %s AND {when} <= %s"
# Asked for with constants, so once a statement: a worker may claim from a lane that it has found
# before the pause. No task starts by a claim that was sent after a pause was committed, except that
# on MariaDB and MySQL candidates are read a moment before they are taken.
_CLAIMABLE = (
    f"{_DUE} AND NOT EXISTS"
    " (SELECT 1 FROM {pause} WHERE queue IN ('', %s) AND biz_code IN ('', %s))"
)
_ORDINARY = f" AND rescues < {SUSPICIOUS_RESCUES}"
_SUSPICIOUS = f" AND rescues >= {SUSPICIOUS_RESCUES}"
_TAKE = """
UPDATE {task} AS t SET status = 1, version = version + 1, claimed_by = %s, claim_time = %s,
    update_time = %s """


def look(*, using: str) -> Look:
    """Every lane that has pending tasks and is not paused, unknown codes included; and the pauses.

    Higher priorities first, then whoever has waited longest.
    """
    dialect = dialect_of(using)
    template = _GROUPED_LANES if dialect.groups_along_index else _HOPPED_LANES
    found = dialect.fetch(template)
    pauses = frozenset(Scope(row[0], row[2]) for row in found if row[1] is None)
    lanes = [
        Lane(queue, priority, code, dialect.from_column(first))
        for queue, priority, code, first in found
        if priority is not None and not any(scope.covers(queue, code) for scope in pauses)
    ]
    return Look(sorted(lanes, key=lambda lane: (-lane.priority, lane.first)), pauses)


def lanes(using: str) -> list[Lane]:
    """The lanes of ``look``."""
    return look(using=using).lanes


def claim(
    claimer: Claimer, lane: Lane, now: datetime, limit: int, *, using: str, careful: bool = False
) -> list[Claimed]:
    """Claim up to ``limit`` tasks of ``lane`` that are due at ``now``, the earliest first.

    Rows that were rescued twice are left to ``claim_alone``. ``careful`` steps over rows that
    somebody holds locked, where the plain way would wait for them.
    """
    dialect = dialect_of(using)
    if dialect.returns_updates:
        return _claim_returning(dialect, claimer, lane, now, limit, _ORDINARY)
    if careful:
        with write_transaction(using):
            rows = _candidates(dialect, lane, now, limit * 2, _ORDINARY)
            rows = rows or _behind_suspects(dialect, lane, now, limit * 2)
            return _take_unlocked(dialect, claimer, lane, rows, now, limit)
    return _claim_optimistic(dialect, claimer, lane, now, limit, _ORDINARY)


def claim_alone(
    claimer: Claimer, lane: Lane, now: datetime, *, using: str, careful: bool = False
) -> list[Claimed]:
    """Claim one task of ``lane`` that was rescued twice; the caller must hold no other claim.

    ``careful`` steps over rows that somebody holds locked, as in ``claim``.
    """
    dialect = dialect_of(using)
    if dialect.returns_updates:
        return _claim_returning(dialect, claimer, lane, now, 1, _SUSPICIOUS)
    if careful:
        with write_transaction(using):
            rows = _candidates(dialect, lane, now, SPARE_CANDIDATES, _SUSPICIOUS)
            return _take_unlocked(dialect, claimer, lane, rows, now, 1)
    return _claim_optimistic(dialect, claimer._replace(workers=1), lane, now, 1, _SUSPICIOUS)


# Such rows were claimed before, so they stand near the head of their lane. The look is bounded:
# it must not walk a million due rows.
SUSPECTS_WINDOW = 1000


def has_suspects(lane: Lane, now: datetime, *, using: str) -> bool:
    """Whether a due task near the head of ``lane`` was rescued twice."""
    dialect = dialect_of(using)
    template = (
        f"SELECT 1 FROM (SELECT rescues FROM {{task}} WHERE {_DUE} ORDER BY {{when}} LIMIT %s)"
        f" AS head WHERE rescues >= {SUSPICIOUS_RESCUES} LIMIT 1"
    )
    return bool(dialect.fetch(template, [*_due_params(dialect, lane, now), SUSPECTS_WINDOW]))


def next_due(lane: Lane, now: datetime, *, using: str) -> datetime | None:
    """The earliest time in ``lane`` that is later than ``now``, aware UTC, or None."""
    dialect = dialect_of(using)
    template = (
        f"SELECT {dialect.readable('{when}')} FROM {{task}} WHERE status = 0 AND queue = %s"
        " AND priority = %s AND biz_code = %s AND {when} > %s ORDER BY {when} LIMIT 1"
    )
    rows = dialect.fetch(template, _due_params(dialect, lane, now))
    return dialect.from_column(rows[0][0]) if rows else None


# A count that is shown, not decided by: it must not walk a million rows either.
COUNTED = 1000


def count_due(lane: Lane, now: datetime, *, using: str) -> str:
    """How many tasks of ``lane`` are due, for people: exact up to 1,000, then "more than"."""
    dialect = dialect_of(using)
    template = f"SELECT COUNT(*) FROM (SELECT 1 FROM {{task}} WHERE {_DUE} LIMIT %s) AS head"
    ((count,),) = dialect.fetch(template, [*_due_params(dialect, lane, now), COUNTED + 1])
    return str(count) if count <= COUNTED else f"more than {COUNTED}"


def owned_ids(worker_id: int, *, using: str) -> set[int]:
    """Ids of all rows that ``worker_id`` owns, whether it knows or not.

    A claim whose answer was lost with the connection leaves such rows: see ``Poller``.
    """
    template = f"SELECT id FROM {{task}} WHERE status IN {OWNED_SQL} AND claimed_by = %s"
    return {row[0] for row in dialect_of(using).fetch(template, [worker_id])}


def _claim_returning(
    dialect: Dialect, claimer: Claimer, lane: Lane, now: datetime, limit: int, which: str
) -> list[Claimed]:
    """One statement: the rows are locked, or the whole file is, between search and change."""
    # ARRAY makes PostgreSQL run the search once; IN may run it again and take more than LIMIT.
    subquery = f"SELECT id FROM {{task}} WHERE {_CLAIMABLE}{which} ORDER BY {{when}} LIMIT %s"
    subquery += dialect.lock_free_rows
    among = f"= ANY(ARRAY({subquery}))" if dialect.lock else f"IN ({subquery})"
    # The plus keeps SQLite's planner on the ids: with an index on status it would walk all that is
    # pending for each claim, 115 ms with 200,000 rows.
    template = f"{_TAKE} WHERE id {among} AND +status = 0 RETURNING {_claimed_columns(dialect)}"
    params = [*_take_params(dialect, claimer, now), *_claimable_params(dialect, lane, now), limit]
    claims = _claims(dialect, lane, dialect.fetch(template, params), claimer, now)
    return sorted(claims, key=_by_time)


def _claim_optimistic(
    dialect: Dialect, claimer: Claimer, lane: Lane, now: datetime, limit: int, which: str
) -> list[Claimed]:
    """Read candidates without a lock, take those that have not changed since.

    Measured faster than SKIP LOCKED on MariaDB, and right on a Galera cluster, where a row lock
    is known to its own node only. Two workers that read the same head of the queue lose half of
    what they read, so each has a share of the ids. Shares go round each second: the head of the
    queue does not wait for a worker that is busy.
    """
    shares = min(claimer.workers, MOST_SHARES)
    share = Share(shares, (claimer.rank + int(now.timestamp())) % shares)
    # More workers than shares: several read one, in different places.
    places = min(-(-claimer.workers // shares), MOST_PLACES)
    offset = random.randrange(places) * limit
    rows: list[tuple[Any, ...]] = []
    for look in dict.fromkeys([(share, offset), (share, 0), (WHOLE, 0)]):
        rows = rows or _candidates(dialect, lane, now, limit, which, *look)
    if not rows and which == _ORDINARY:
        rows = _behind_suspects(dialect, lane, now, limit)
    return _take(dialect, claimer, lane, rows, now)


def _take_unlocked(
    dialect: Dialect,
    claimer: Claimer,
    lane: Lane,
    rows: list[tuple[Any, ...]],
    now: datetime,
    limit: int,
) -> list[Claimed]:
    if not rows:
        return []
    template = (
        f"SELECT id FROM {{task}} WHERE id IN ({placeholders(len(rows))}){dialect.lock_free_rows}"
    )
    free = {row[0] for row in dialect.fetch(template, [row[0] for row in rows])}
    return _take(dialect, claimer, lane, [row for row in rows if row[0] in free][:limit], now)


# How many rows that must be claimed alone may stand at a lane's head before they hide the others
# from one look.
SPARE_CANDIDATES = 20

# With more, most of what is read of the index would be other workers' ids.
MOST_SHARES = 8
# An offset walks over all that it skips, of all shares.
MOST_PLACES = 4


class Share(NamedTuple):
    """The ids that leave ``rest`` when divided by ``divisor``."""

    divisor: int
    rest: int


WHOLE = Share(1, 0)


def _candidates(
    dialect: Dialect,
    lane: Lane,
    now: datetime,
    limit: int,
    which: str,
    share: Share = WHOLE,
    offset: int = 0,
) -> list[tuple[Any, ...]]:
    # The inner query is answered by the index alone, so that a share and an offset skip index
    # entries, not rows; "rescues" is not in the index, so the doubtful rows are left out after it.
    template = (
        f"SELECT {_claimed_columns(dialect)} FROM {{task}} JOIN"
        f" (SELECT id AS head FROM {{task}} WHERE {_CLAIMABLE} AND MOD(id, %s) = %s"
        " ORDER BY {when} LIMIT %s OFFSET %s) AS heads"
        f" ON head = id WHERE status = 0{which} ORDER BY {{when}}"
    )
    window = SUSPECTS_WINDOW if which == _SUSPICIOUS else limit + SPARE_CANDIDATES
    params = [*_claimable_params(dialect, lane, now), *share, window, offset]
    return dialect.fetch(template, params)[:limit]


def _behind_suspects(
    dialect: Dialect, lane: Lane, now: datetime, limit: int
) -> list[tuple[Any, ...]]:
    """Candidates behind a head that is all rows to be claimed alone."""
    template = (
        f"SELECT {_claimed_columns(dialect)} FROM {{task}} AS t WHERE {_CLAIMABLE}{_ORDINARY}"
        " ORDER BY {when} LIMIT %s"
    )
    return dialect.fetch(template, [*_claimable_params(dialect, lane, now), limit])


def _take(
    dialect: Dialect, claimer: Claimer, lane: Lane, rows: list[tuple[Any, ...]], now: datetime
) -> list[Claimed]:
    """Change the rows that are still as read; count them; if some are missing, ask which."""
    if not rows:
        return []
    ids = [row[0] for row in rows]
    condition, params = dialect.among([row[:2] for row in rows], "version")
    template = f"{_TAKE} WHERE status = 0 AND {condition}"
    taken = dialect.execute(template, [*_take_params(dialect, claimer, now), *params])
    ours: Collection[int] = ids if taken == len(ids) else _still_ours(dialect, claimer, ids)
    # Somebody may have added to a row of ours since: then its version has moved on, our finish
    # will not match, and the row is released. So the version is the one we wrote, not one we read.
    written = [(row[0], row[1] + 1, *row[2:]) for row in rows if row[0] in ours]
    return _claims(dialect, lane, written, claimer, now)


def _still_ours(dialect: Dialect, claimer: Claimer, ids: list[int]) -> set[int]:
    template = (
        f"SELECT id FROM {{task}} WHERE id IN ({placeholders(len(ids))})"
        f" AND claimed_by = %s AND status IN {OWNED_SQL}"
    )
    return {row[0] for row in dialect.fetch(template, [*ids, claimer.worker_id])}


def _claims(
    dialect: Dialect, lane: Lane, rows: Iterable[tuple[Any, ...]], claimer: Claimer, now: datetime
) -> list[Claimed]:
    utc, owner = dialect.from_column, claimer.worker_id
    queue, priority, code, _ = lane
    # Made once each, and by place: with ``_replace`` for the times it took five times as long.
    return [
        Claimed(
            row_id,
            version,
            code,
            number,
            utc(when),
            ext,
            queue,
            priority,
            attempts,
            rescues,
            utc(created),
            error,
            schedule,
            scheduled and utc(scheduled),
            owner,
            now,
        )
        for (
            row_id,
            version,
            number,
            when,
            ext,
            attempts,
            rescues,
            created,
            error,
            schedule,
            scheduled,
        ) in rows
    ]


def _due_params(dialect: Dialect, lane: Lane, now: datetime) -> list[Any]:
    return [lane.queue, lane.priority, lane.biz_code, dialect.to_column(now)]


def _claimable_params(dialect: Dialect, lane: Lane, now: datetime) -> list[Any]:
    return [*_due_params(dialect, lane, now), lane.queue, lane.biz_code]


def _take_params(dialect: Dialect, claimer: Claimer, now: datetime) -> list[Any]:
    moment = dialect.to_column(now)
    return [claimer.worker_id, moment, moment]


def _by_time(claimed: Claimed) -> datetime:
    return claimed.when
