"""The two statements by which rows leave their owner: changed, or gone.

Each takes a batch, guards every row with the id, version and owner that the caller relies on, and
answers with the ids that matched. What did not match is the caller's to explain.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django_tasks.store.batches import batches
from django_tasks.store.dialects import Dialect, flatten, placeholders
from django_tasks.store.statuses import FINISHABLE_SQL
from django_tasks.values.status import Status


class Key(NamedTuple):
    """The fence of one owned row."""

    id: int
    version: int
    owner: int


class Leaving(NamedTuple):
    """An owned row that goes on without its owner: what is new about it.

    ``when`` None and ``biz_ext`` None leave those as they are; ``biz_ext`` "null" stores NULL.
    ``scheduled_time`` goes with ``when``: it is left or set with it. The deadline of a debounced
    task is left with it, and forgotten with another ``when``: its wait is over.
    """

    id: int
    version: int
    owner: int
    failed: bool
    when: datetime | None
    biz_ext: str | None
    attempts: int
    rescues: int
    last_error: str
    scheduled_time: datetime | None = None


def waiting(key: Key, attempts: int = 0, rescues: int = 0, last_error: str = "") -> Leaving:
    """The row goes on as it is, with these counters."""
    return Leaving(*key, False, None, None, attempts, rescues, last_error)


# A row that was to be paused is PAUSED now, whatever else happened; others wait for their time.
_NEW_STATUS = (
    f"CASE WHEN n.failed = 1 THEN {Status.FAILED:d}"
    f" WHEN t.status = {Status.PAUSING:d} THEN {Status.PAUSED:d} ELSE {Status.PENDING:d} END"
)
_NEW_COLUMNS = (
    "task_id, task_version, owner, failed, new_when, new_biz_ext, new_attempts, new_rescues,"
    " new_error, new_scheduled"
)


def leave(dialect: Dialect, rows: Sequence[Leaving], now: datetime) -> set[int]:
    """Hand rows back, changed: unowned, version + 1. Returns the ids that were still as claimed.

    Race: an add, a cancel, or a rescue may have moved a row since; then its version or its owner
    is another and it is not matched. Sorted by id, so that two batches never wait crosswise. In
    several statements if the texts are too long for one: call inside a transaction.
    """
    matched: set[int] = set()
    for batch in batches(sorted(rows), max(1, len(rows)), _texts):
        matched |= _leave(dialect, batch, now)
    return matched


def _texts(row: Leaving) -> tuple[str | None, str]:
    return row.biz_ext, row.last_error


def _leave(dialect: Dialect, rows: list[Leaving], now: datetime) -> set[int]:
    if dialect.returns_updates:
        return {row[0] for row in dialect.fetch(*_leave_returning(dialect, rows, now))}
    matched = _locked(dialect, [row[:3] for row in rows], FINISHABLE_SQL)
    if rows := [row for row in rows if row.id in matched]:
        changed = dialect.execute(*_leave_joined(dialect, rows, now))
        expect_count(changed, len(rows))
    return matched


def remove(
    dialect: Dialect, keys: Sequence[tuple[int, int, int]], statuses: str = FINISHABLE_SQL
) -> set[int]:
    """Delete rows that are still as claimed; returns their ids. The same races as ``leave``.

    ``keys``: id, version and owner of each, as in ``Key``.
    """
    if not keys:
        return set()
    if dialect.returns_deletes:
        return _removed_returning(dialect, keys, statuses)
    matched = _locked(dialect, keys, statuses)
    if matched:
        gone = dialect.execute(
            f"DELETE FROM {{task}} WHERE id IN ({placeholders(len(matched))})", sorted(matched)
        )
        expect_count(gone, len(matched))
    return matched


def _removed_returning(
    dialect: Dialect, keys: Sequence[tuple[int, int, int]], statuses: str
) -> set[int]:
    condition, params = dialect.among(sorted(keys), "version", "claimed_by")
    # The plus keeps PostgreSQL's planner on the ids: by status it would walk the dead entries of
    # all that was owned before.
    template = f"DELETE FROM {{task}} WHERE {condition} AND +status IN {statuses} RETURNING id"
    return {row[0] for row in dialect.fetch(template, params)}


def _leave_returning(
    dialect: Dialect, rows: Sequence[Leaving], now: datetime
) -> tuple[str, list[Any]]:
    marked = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    when, ext = dialect.cast_time("n.new_when"), dialect.cast_json("n.new_biz_ext")
    scheduled = dialect.cast_time("n.new_scheduled")
    template = f"""
WITH n({_NEW_COLUMNS}) AS (VALUES {", ".join([marked] * len(rows))})
UPDATE {{task}} AS t SET
    {{when}} = COALESCE({when}, t.{{when}}),
    scheduled_time = CASE WHEN n.new_when IS NULL THEN t.scheduled_time ELSE {scheduled} END,
    latest_time = CASE WHEN n.new_when IS NULL THEN t.latest_time END,
    biz_ext = CASE WHEN n.new_biz_ext IS NULL THEN t.biz_ext
                   WHEN n.new_biz_ext = 'null' THEN NULL ELSE {ext} END,
    attempts = n.new_attempts, rescues = n.new_rescues, last_error = n.new_error,
    status = {_NEW_STATUS}, version = t.version + 1, claimed_by = NULL, claim_time = NULL,
    update_time = %s
FROM n WHERE t.id = n.task_id AND t.version = n.task_version AND t.claimed_by = n.owner
    AND t.status IN {FINISHABLE_SQL}
RETURNING id"""
    return template, [*_values(dialect, rows), dialect.to_column(now)]


def _leave_joined(
    dialect: Dialect, rows: Sequence[Leaving], now: datetime
) -> tuple[str, list[Any]]:
    names = _NEW_COLUMNS.split(", ")
    first = "SELECT " + ", ".join(f"%s AS {name.strip()}" for name in names)
    union = " UNION ALL ".join([first, *[f"SELECT {placeholders(len(names))}"] * (len(rows) - 1)])
    template = f"""
UPDATE {{task}} AS t JOIN ({union}) AS n
    ON t.id = n.task_id AND t.version = n.task_version AND t.claimed_by = n.owner
SET t.{{when}} = COALESCE(n.new_when, t.{{when}}),
    t.scheduled_time = IF(n.new_when IS NULL, t.scheduled_time, n.new_scheduled),
    t.latest_time = IF(n.new_when IS NULL, t.latest_time, NULL),
    t.biz_ext = CASE WHEN n.new_biz_ext IS NULL THEN t.biz_ext
                     WHEN n.new_biz_ext = 'null' THEN NULL ELSE n.new_biz_ext END,
    t.attempts = n.new_attempts, t.rescues = n.new_rescues, t.last_error = n.new_error,
    t.status = {_NEW_STATUS}, t.version = t.version + 1, t.claimed_by = NULL,
    t.claim_time = NULL, t.update_time = %s
WHERE t.status IN {FINISHABLE_SQL}"""
    return template, [*_values(dialect, rows), dialect.to_column(now)]


def _values(dialect: Dialect, rows: Sequence[Leaving]) -> list[Any]:
    time = dialect.to_due
    return flatten(
        (
            *row[:3],
            int(row.failed),
            row.when and time(row.when),
            *row[5:9],
            row.scheduled_time and time(row.scheduled_time),
        )
        for row in rows
    )


def _locked(dialect: Dialect, keys: Sequence[tuple[int, int, int]], statuses: str) -> set[int]:
    """Ids of the rows that still match, locked until our transaction ends.

    For databases that cannot say which rows an UPDATE changed.
    """
    ids = sorted(key[0] for key in keys)
    template = (
        f"SELECT id, version, claimed_by FROM {{task}} WHERE id IN ({placeholders(len(ids))})"
        f" AND status IN {statuses} ORDER BY id{dialect.lock}"
    )
    found = set(dialect.fetch(template, ids))
    return {key[0] for key in keys if key in found}


def expect_count(count: int, expected: int) -> None:
    """Rows locked in this very transaction cannot have changed; anything else is a defect."""
    if count != expected:
        raise AssertionError(f"{count} rows changed where {expected} were locked")
