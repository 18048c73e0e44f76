"""Take due tasks for a worker: many of one lane, or a few of several lanes.

Race: any number of workers claim, and clients move, cancel and pause, at the same time. A row is
ours only if it was still PENDING and still the version we had read when our own statement changed
it.
"""

import random
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from django_tasks.store.dialects import Dialect, dialect_of, placeholders
from django_tasks.store.lanes import (
    DUE,
    SUSPECTS_WINDOW,
    SUSPICIOUS_RESCUES,
    Lane,
    Place,
    due_params,
)
from django_tasks.store.transactions import write_transaction
from django_tasks.values.claimed import Claimed
from django_tasks.values.status import OWNED_SQL, STATUS_OF_FOUND, Status


# What a claim reads of each row: not what all rows of its lane have in common, which each driver
# would make a new text of for each row.
def _claimed_columns(dialect: Dialect) -> str:
    when, created = dialect.readable("{when}"), dialect.readable("create_time")
    return (
        f"id, version, biz_num, {when}, biz_ext, attempts, rescues, {created}, last_error,"
        f" schedule, {dialect.readable('scheduled_time')}, options, runs"
    )


class Share(NamedTuple):
    """The ids that leave ``rest`` when divided by ``divisor``."""

    divisor: int
    rest: int


WHOLE = Share(1, 0)


class Places(Protocol):
    """The places where searches of one lane begin, by the share of its ids that is searched."""

    def since(self, share: Share) -> Place | None:
        """Nothing that waits in this share is before it; None: nobody knows."""

    def note(self, share: Share, first: Place | None) -> None:
        """The first place of this share at which something waited; None: nothing waits there."""


class _From(NamedTuple):
    """One place for all shares, whatever is found there; None: nobody knows."""

    place: Place | None = None

    def since(self, share: Share) -> Place | None:
        return self.place

    def note(self, share: Share, first: Place | None) -> None:
        """Forget it."""


UNKNOWN = _From()


class Wanted(NamedTuple):
    """A lane, the number of tasks to claim from it at most, and where its searches begin."""

    lane: Lane
    most: int
    places: Places


class Claimer(NamedTuple):
    """The worker that claims, the number of workers that may be after the same rows (itself
    included), and the number of older ones among them.
    """

    worker_id: int
    workers: int = 1
    rank: int = 0


# A worker may have found its lane before the pause, so each claim asks again. The subquery has
# constants only, so the database runs it once per statement. No task starts by a claim that was
# sent after a pause was committed, except that on MariaDB and MySQL candidates are read a moment
# before they are taken.
_CLAIMABLE = (
    f"{DUE} AND NOT EXISTS"
    " (SELECT 1 FROM {pause} WHERE queue IN ('', %s) AND biz_code IN ('', %s))"
)
_ORDINARY = f" AND rescues < {SUSPICIOUS_RESCUES}"
_SUSPICIOUS = f" AND rescues >= {SUSPICIOUS_RESCUES}"
_TAKE = """
UPDATE {task} AS t SET status = 1, version = version + 1, claimed_by = %s, claim_time = %s,
    update_time = %s """


def claim(
    claimer: Claimer,
    lane: Lane,
    now: datetime,
    limit: int,
    *,
    using: str,
    careful: bool = False,
    places: Places = UNKNOWN,
) -> list[Claimed]:
    """Claim up to ``limit`` tasks of ``lane`` that are due at ``now``, the earliest first.

    Rows that were rescued twice are left to ``claim_alone``. ``careful`` steps over rows that
    somebody holds locked, where the plain way would wait for them. ``places`` says where searches
    of this lane begin, and hears what they have found.
    """
    dialect = dialect_of(using)
    if careful and not dialect.returns_updates:
        due = _Due(lane, now, places.since(WHOLE))
        with write_transaction(using):
            rows = _candidates(dialect, due, limit * 2, _ORDINARY)
            rows = rows or _behind_suspects(dialect, due, limit * 2)
            places.note(WHOLE, _first_of(dialect, rows))
            return _take_unlocked(dialect, claimer, lane, rows, now, limit)
    return _claim_plainly(dialect, claimer, [Wanted(lane, limit, places)], now, limit)[0]


def claim_together(
    claimer: Claimer, wanted: Sequence[Wanted], now: datetime, limit: int, *, using: str
) -> list[list[Claimed]]:
    """Claim from several lanes, ``limit`` tasks in all, the earliest of each lane first.

    One statement changes the rows: each commit waits for the disk, and hundreds of lanes with a
    task each would wait for it hundreds of times. Returns the claims of each lane; only of the
    first ones where the limit was reached. Otherwise as ``claim``.
    """
    return _claim_plainly(dialect_of(using), claimer, wanted, now, limit)


def claim_alone(
    claimer: Claimer,
    lane: Lane,
    now: datetime,
    *,
    using: str,
    careful: bool = False,
    since: Place | None = None,
) -> list[Claimed]:
    """Claim one task of ``lane`` that was rescued twice; the caller must hold no other claim.

    ``careful`` steps over rows that somebody holds locked, as in ``claim``. ``since`` is where the
    search begins: rows before it are not found.
    """
    dialect = dialect_of(using)
    if careful and not dialect.returns_updates:
        with write_transaction(using):
            due = _Due(lane, now, since)
            rows = _candidates(dialect, due, SPARE_CANDIDATES, _SUSPICIOUS)
            return _take_unlocked(dialect, claimer, lane, rows, now, 1)
    wanted = [Wanted(lane, 1, _From(since))]
    return _claim_plainly(dialect, claimer._replace(workers=1), wanted, now, 1, _SUSPICIOUS)[0]


def claim_row(
    claimer: Claimer, biz_code: str, biz_num: str, now: datetime, *, using: str, failed: bool
) -> Claimed | None:
    """Claim the task of one key, whenever it is due and whatever is paused; None if it cannot be.

    A person wants it to run. It must be PENDING or, with ``failed``, FAILED: then it begins with
    all its attempts, as one that was requeued. Race: a worker claims it at the same time. One of
    the two finds the version that it has read.
    """
    dialect = dialect_of(using)
    statuses = f"({Status.PENDING:d}, {Status.FAILED:d})" if failed else f"({Status.PENDING:d})"
    which = f"{STATUS_OF_FOUND} IN {statuses}"
    template = (
        f"SELECT {_claimed_columns(dialect)}, status, queue, priority FROM {{task}}"
        f" WHERE biz_code = %s AND biz_num = %s AND {which}"
    )
    for *row, status, queue, priority in dialect.fetch(template, [biz_code, biz_num]):
        take = f"{_TAKE} WHERE id = %s AND version = %s AND {which}"
        if dialect.execute(take, [*_take_params(dialect, claimer, now), *row[:2]]) == 1:
            lane = Lane(queue, priority, biz_code, now)
            (claimed,) = _claims(dialect, lane, [(row[0], row[1] + 1, *row[2:])], claimer, now)
            is_fresh = status == Status.FAILED
            return claimed._replace(attempts=0, rescues=0) if is_fresh else claimed
    return None


def owned_ids(worker_id: int, *, using: str) -> set[int]:
    """Ids of all rows that ``worker_id`` owns, whether it knows or not.

    A claim whose answer was lost with the connection leaves such rows: see ``Poller``.
    """
    template = f"SELECT id FROM {{task}} WHERE status IN {OWNED_SQL} AND claimed_by = %s"
    return {row[0] for row in dialect_of(using).fetch(template, [worker_id])}


class _Due(NamedTuple):
    """The rows that a claim may look at: of one lane, due at ``now``, not before ``since``."""

    lane: Lane
    now: datetime
    since: Place | None

    def condition(self, dialect: Dialect) -> tuple[str, list[Any]]:
        params = [*due_params(dialect, self.lane, self.now), self.lane.queue, self.lane.biz_code]
        if self.since is None:
            return _CLAIMABLE, params
        since, place = dialect.since(*self.since)
        return f"{_CLAIMABLE} AND {since}", [*params, *place]


def _claim_plainly(
    dialect: Dialect,
    claimer: Claimer,
    wanted: Sequence[Wanted],
    now: datetime,
    limit: int,
    which: str = _ORDINARY,
) -> list[list[Claimed]]:
    """Claim as each server does it best; a row that somebody holds locked may be waited for."""
    take = _claim_returning if dialect.returns_updates else _claim_optimistic
    return take(dialect, claimer, wanted, now, limit, which)


def _claim_returning(
    dialect: Dialect,
    claimer: Claimer,
    wanted: Sequence[Wanted],
    now: datetime,
    limit: int,
    which: str,
) -> list[list[Claimed]]:
    """One statement: the rows are locked, or the whole file is, between search and change."""
    searches, params, columns = [], _take_params(dialect, claimer, now), _claimed_columns(dialect)
    for lane, most, places in wanted:
        claimable, values = _Due(lane, now, places.since(WHOLE)).condition(dialect)
        search = f"SELECT id FROM {{task}} WHERE {claimable}{which} ORDER BY {{when}}, id LIMIT %s"
        searches.append(search + dialect.lock_free_rows)
        params += [*values, min(most, limit)]
    among = searches[0]
    if len(wanted) > 1:
        many = [f"SELECT id FROM ({search}) AS lane_{n}" for n, search in enumerate(searches)]
        among = f"{' UNION ALL '.join(many)} LIMIT %s"
        columns += ", queue, priority, biz_code"
        params.append(limit)
    # ARRAY makes PostgreSQL run the search once; IN may run it again and take more than LIMIT.
    among = f"= ANY(ARRAY({among}))" if dialect.lock else f"IN ({among})"
    template = f"{_TAKE} WHERE id {among} AND {STATUS_OF_FOUND} = 0 RETURNING {columns}"
    found = dialect.fetch(template, params)
    rows = [found] if len(wanted) == 1 else _by_lane(wanted, found)
    claims = _claims_of(dialect, wanted, rows, claimer, now)
    if sum(map(len, claims)) >= limit:  # lanes behind the last of these were not searched
        while len(claims) > 1 and not claims[-1]:
            claims.pop()
    for (_, _, places), some in zip(wanted, claims, strict=False):
        some.sort(key=place_of)
        places.note(WHOLE, place_of(some[0]) if some else None)
    return claims


def _by_lane(wanted: Sequence[Wanted], found: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows lane by lane, without the three columns at their end, which say of which one."""
    rows: dict[tuple[Any, ...], list[Any]] = {lane[:3]: [] for lane, _, _ in wanted}
    for *row, queue, priority, code in found:
        rows[queue, priority, code].append(row)
    return [*rows.values()]


def _claim_optimistic(
    dialect: Dialect,
    claimer: Claimer,
    wanted: Sequence[Wanted],
    now: datetime,
    limit: int,
    which: str,
) -> list[list[Claimed]]:
    """Read candidates without a lock, take those that have not changed since."""
    # By id. Race: a row has moved from a lane to one that is read later. It is of the last one.
    read: dict[int, tuple[int, tuple[Any, ...]]] = {}
    rows: list[list[tuple[Any, ...]]] = []
    for lane, most, places in wanted:
        if (room := limit - len(read)) <= 0 and rows:
            break
        due = _Due(lane, now, places.since(WHOLE))
        found = _unlocked_candidates(dialect, claimer, due, min(most, room), which, places)
        read |= {row[0]: (len(rows), row) for row in found}
        rows.append([])
    for row in _take(dialect, claimer, [row for _, row in read.values()], now):
        rows[read[row[0]][0]].append(row)
    return _claims_of(dialect, wanted, rows, claimer, now)


def _unlocked_candidates(
    dialect: Dialect, claimer: Claimer, due: _Due, limit: int, which: str, places: Places
) -> list[tuple[Any, ...]]:
    """Candidates that few other workers look at.

    Measured faster than SKIP LOCKED on MariaDB, and right on a Galera cluster, where a row lock
    is known to its own node only. Two workers that read the same head of the queue lose half of
    what they read, so each has a share of the ids. Shares go round each second: the head of the
    queue does not wait for a worker that is busy.
    """
    shares = min(claimer.workers, MOST_SHARES)
    share = Share(shares, (claimer.rank + int(due.now.timestamp())) % shares)
    # More workers than shares: several read one, in different places.
    spots = min(-(-claimer.workers // shares), MOST_PLACES)
    offset = random.randrange(spots) * limit
    for part, skipped in dict.fromkeys([(share, offset), (share, 0), (WHOLE, 0)]):
        begun = due._replace(since=places.since(part))
        if rows := _candidates(dialect, begun, limit, which, part, skipped):
            if not skipped:
                places.note(part, _first_of(dialect, rows))
            return rows
    rows = _behind_suspects(dialect, due, limit) if which == _ORDINARY else []
    places.note(WHOLE, _first_of(dialect, rows))
    return rows


def _first_of(dialect: Dialect, rows: list[tuple[Any, ...]]) -> Place | None:
    return Place(dialect.from_column(rows[0][3]), rows[0][0]) if rows else None


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
    taken = _take(dialect, claimer, [row for row in rows if row[0] in free][:limit], now)
    return _claims(dialect, lane, taken, claimer, now)


# How many rows that must be claimed alone may stand at a lane's head before they hide the others
# from one look.
SPARE_CANDIDATES = 20

# With more, most of what is read of the index would be other workers' ids.
MOST_SHARES = 8
# An offset walks over all that it skips, of all shares.
MOST_PLACES = 4


def _candidates(
    dialect: Dialect,
    due: _Due,
    limit: int,
    which: str,
    share: Share = WHOLE,
    offset: int = 0,
) -> list[tuple[Any, ...]]:
    claimable, params = due.condition(dialect)
    # The inner query is answered by the index alone, so that a share and an offset skip index
    # entries, not rows; "rescues" is not in the index, so the doubtful rows are left out after it.
    template = (
        f"SELECT {_claimed_columns(dialect)} FROM {{task}} JOIN"
        f" (SELECT{dialect.by_lane} id AS head FROM {{task}} WHERE {claimable} AND MOD(id, %s) = %s"
        " ORDER BY {when}, id LIMIT %s OFFSET %s) AS heads"
        f" ON head = id WHERE {STATUS_OF_FOUND} = 0{which} ORDER BY {{when}}, id"
    )
    window = SUSPECTS_WINDOW if which == _SUSPICIOUS else limit + SPARE_CANDIDATES
    return dialect.fetch(template, [*params, *share, window, offset])[:limit]


def _behind_suspects(dialect: Dialect, due: _Due, limit: int) -> list[tuple[Any, ...]]:
    """Candidates behind a head that is all rows to be claimed alone."""
    claimable, params = due.condition(dialect)
    template = (
        f"SELECT{dialect.by_lane} {_claimed_columns(dialect)} FROM {{task}}"
        f" WHERE {claimable}{_ORDINARY}"
        " ORDER BY {when}, id LIMIT %s"
    )
    return dialect.fetch(template, [*params, limit])


def _take(
    dialect: Dialect, claimer: Claimer, rows: list[tuple[Any, ...]], now: datetime
) -> list[tuple[Any, ...]]:
    """Change the rows that are still as read; count them; if some are missing, ask which.

    Returns those that are ours now, with the version that they have got.
    """
    if not rows:
        return []
    ids = [row[0] for row in rows]
    condition, params = dialect.among([row[:2] for row in rows], "version")
    template = f"{_TAKE} WHERE {STATUS_OF_FOUND} = 0 AND {condition}"
    taken = dialect.execute(template, [*_take_params(dialect, claimer, now), *params])
    ours: Collection[int] = ids if taken == len(ids) else _still_ours(dialect, claimer, ids)
    # Somebody may have added to a row of ours since: then its version has moved on, our finish
    # will not match, and the row is handed over. So the version is the one we wrote, not the one
    # we read.
    return [(row[0], row[1] + 1, *row[2:]) for row in rows if row[0] in ours]


def _still_ours(dialect: Dialect, claimer: Claimer, ids: list[int]) -> set[int]:
    template = (
        f"SELECT id FROM {{task}} WHERE id IN ({placeholders(len(ids))})"
        f" AND claimed_by = %s AND {STATUS_OF_FOUND} IN {OWNED_SQL}"
    )
    return {row[0] for row in dialect.fetch(template, [*ids, claimer.worker_id])}


def _claims_of(
    dialect: Dialect,
    wanted: Sequence[Wanted],
    rows: Sequence[Iterable[tuple[Any, ...]]],
    claimer: Claimer,
    now: datetime,
) -> list[list[Claimed]]:
    each = zip(wanted, rows, strict=False)
    return [_claims(dialect, lane, some, claimer, now) for (lane, _, _), some in each]


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
            options,
            runs,
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
            options,
            runs,
        ) in rows
    ]


def _take_params(dialect: Dialect, claimer: Claimer, now: datetime) -> list[Any]:
    moment = dialect.to_column(now)
    return [claimer.worker_id, moment, moment]


def place_of(claimed: Claimed) -> Place:
    """The place at which a claim was found."""
    return Place(claimed.when, claimed.id)
