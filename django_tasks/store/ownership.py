"""The two statements that end a worker's ownership of a row: it has no owner, or it is deleted.

Each takes a batch, guards every row with the id, version and owner that the caller relies on, and
answers with the ids that matched. What did not match is the caller's to explain.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from django_tasks.store.batches import batches
from django_tasks.store.dialects import Dialect, flatten, placeholders
from django_tasks.values.status import CANCELLING_SQL, FINISHABLE_SQL, STATUS_OF_FOUND, Status


class Fence(NamedTuple):
    """The values that a row must still have for its owner to write it."""

    id: int
    version: int
    owner: int


class FreedRow(NamedTuple):
    """An owned row that goes on without its owner, and the changes of it.

    ``when`` None and ``biz_ext`` None leave those as they are; ``biz_ext`` "null" stores NULL.
    ``scheduled_time`` goes with ``when``: it is left or set with it. The deadline of a debounced
    task is left with it, and forgotten with another ``when``: its wait is over. ``ended`` is the
    end of its run, and None if none is counted. A payload that a client has written during the run
    stands. ``exception`` None leaves that of the last run.
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
    ended: datetime | None = None
    exception: str | None = None


def unchanged(
    fence: Fence,
    attempts: int = 0,
    rescues: int = 0,
    last_error: str = "",
    ended: datetime | None = None,
) -> FreedRow:
    """The row goes on as it is, with these counters."""
    return FreedRow(*fence, False, None, None, attempts, rescues, last_error, ended=ended)


# A row that was to be paused is PAUSED now, whatever else happened; others wait for their time.
_NEW_STATUS = (
    f"CASE WHEN n.failed = 1 THEN {Status.FAILED:d}"
    f" WHEN t.status = {Status.PAUSING:d} THEN {Status.PAUSED:d} ELSE {Status.PENDING:d} END"
)
_NEW_COLUMNS = (
    "task_id, task_version, owner, failed, new_when, new_biz_ext, new_attempts, new_rescues,"
    " new_error, new_scheduled, new_ended, new_exception"
)
# ``update_time`` is that of the claim unless a client has changed what the row says: see ``alter``
# in ``store.control``. It stands before both are assigned: MariaDB, whose manual promises nothing
# of an UPDATE with a JOIN, assigns from left to right there too (10.11).
_REWRITTEN = "t.update_time <> t.claim_time"
# Of a row that waits again nothing is under way.
_PROGRESS = "CASE WHEN n.failed = 1 THEN t.progress END"
_COUNTED = "CASE WHEN n.new_ended IS NULL THEN 0 ELSE 1 END"


class OwnedRow(Protocol):
    """A row that was found with its owner."""

    @property
    def fence(self) -> Fence: ...

    @property
    def status(self) -> int: ...


Row = TypeVar("Row", bound=OwnedRow)


def give_up(
    dialect: Dialect, rows: Sequence[Row], changed: Callable[[Row], FreedRow], now: datetime
) -> set[int]:
    """Give up rows that were locked in this transaction; returns the ids that were still owned.

    CANCELLING rows are removed. The others are handed over as ``changed`` says.
    """
    cancelled = [row.fence for row in rows if row.status == Status.CANCELLING]
    others = [changed(row) for row in rows if row.status != Status.CANCELLING]
    return remove(dialect, cancelled, CANCELLING_SQL) | hand_over(dialect, others, now)


def hand_over(dialect: Dialect, rows: Sequence[FreedRow], now: datetime) -> set[int]:
    """Hand rows back, changed: unowned, version + 1. Returns the ids that were still as claimed.

    Race: an add, a cancel, or a rescue may have moved a row since; then its version or its owner
    is another and it is not matched. Sorted by id, so that two batches never wait crosswise. In
    several statements if the texts are too long for one: call inside a transaction.
    """
    matched: set[int] = set()
    for batch in batches(sorted(rows), max(1, len(rows)), _texts):
        matched |= _hand_over(dialect, batch, now)
    return matched


def _texts(row: FreedRow) -> tuple[str | None, str]:
    return row.biz_ext, row.last_error


def _hand_over(dialect: Dialect, rows: list[FreedRow], now: datetime) -> set[int]:
    if dialect.returns_updates:
        return {row[0] for row in dialect.fetch(*_hand_over_returning(dialect, rows, now))}
    matched = _locked(dialect, [row[:3] for row in rows], FINISHABLE_SQL)
    if rows := [row for row in rows if row.id in matched]:
        changed = dialect.execute(*_hand_over_joined(dialect, rows, now))
        expect_count(changed, len(rows))
    return matched


def remove(
    dialect: Dialect, fences: Sequence[tuple[int, int, int]], statuses: str = FINISHABLE_SQL
) -> set[int]:
    """Delete rows that are still as claimed; returns their ids. The same races as ``hand_over``.

    ``fences``: id, version and owner of each, as in ``Fence``.
    """
    if not fences:
        return set()
    if dialect.returns_deletes:
        return _removed_returning(dialect, fences, statuses)
    matched = _locked(dialect, fences, statuses)
    if matched:
        gone = dialect.execute(
            f"DELETE FROM {{task}} WHERE id IN ({placeholders(len(matched))})", sorted(matched)
        )
        expect_count(gone, len(matched))
    return matched


def _removed_returning(
    dialect: Dialect, fences: Sequence[tuple[int, int, int]], statuses: str
) -> set[int]:
    condition, params = dialect.among(sorted(fences), "version", "claimed_by")
    condition += f" AND {STATUS_OF_FOUND} IN {statuses}"
    template = f"DELETE FROM {{task}} WHERE {condition} RETURNING id"
    return {row[0] for row in dialect.fetch(template, params)}


def _hand_over_returning(
    dialect: Dialect, rows: Sequence[FreedRow], now: datetime
) -> tuple[str, list[Any]]:
    marked = f"({placeholders(len(_NEW_COLUMNS.split(',')))})"
    when, ext = dialect.cast_time("n.new_when"), dialect.cast_json("n.new_biz_ext")
    scheduled, ended = dialect.cast_time("n.new_scheduled"), dialect.cast_time("n.new_ended")
    template = f"""
WITH n({_NEW_COLUMNS}) AS (VALUES {", ".join([marked] * len(rows))})
UPDATE {{task}} AS t SET
    {{when}} = COALESCE({when}, t.{{when}}),
    scheduled_time = CASE WHEN n.new_when IS NULL THEN t.scheduled_time ELSE {scheduled} END,
    latest_time = CASE WHEN n.new_when IS NULL THEN t.latest_time END,
    biz_ext = CASE WHEN n.new_biz_ext IS NULL OR {_REWRITTEN} THEN t.biz_ext
                   WHEN n.new_biz_ext = 'null' THEN NULL ELSE {ext} END,
    attempts = n.new_attempts, rescues = n.new_rescues, last_error = n.new_error,
    exception = COALESCE(n.new_exception, t.exception),
    runs = t.runs + {_COUNTED}, last_run = COALESCE({ended}, t.last_run),
    progress = {_PROGRESS},
    status = {_NEW_STATUS}, version = t.version + 1, claimed_by = NULL, claim_time = NULL,
    update_time = %s
FROM n WHERE t.id = n.task_id AND t.version = n.task_version AND t.claimed_by = n.owner
    AND t.{STATUS_OF_FOUND} IN {FINISHABLE_SQL}
RETURNING id"""
    return template, [*_values(dialect, rows), dialect.to_column(now)]


def _hand_over_joined(
    dialect: Dialect, rows: Sequence[FreedRow], now: datetime
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
    t.biz_ext = CASE WHEN n.new_biz_ext IS NULL OR {_REWRITTEN} THEN t.biz_ext
                     WHEN n.new_biz_ext = 'null' THEN NULL ELSE n.new_biz_ext END,
    t.attempts = n.new_attempts, t.rescues = n.new_rescues, t.last_error = n.new_error,
    t.exception = COALESCE(n.new_exception, t.exception),
    t.runs = t.runs + {_COUNTED}, t.last_run = COALESCE(n.new_ended, t.last_run),
    t.progress = {_PROGRESS},
    t.status = {_NEW_STATUS}, t.version = t.version + 1, t.claimed_by = NULL,
    t.claim_time = NULL, t.update_time = %s
WHERE t.{STATUS_OF_FOUND} IN {FINISHABLE_SQL}"""
    return template, [*_values(dialect, rows), dialect.to_column(now)]


def _values(dialect: Dialect, rows: Sequence[FreedRow]) -> list[Any]:
    time = dialect.to_due
    return flatten(
        (
            *row[:3],
            int(row.failed),
            row.when and time(row.when),
            *row[5:9],
            row.scheduled_time and time(row.scheduled_time),
            row.ended and dialect.to_column(row.ended),
            row.exception,
        )
        for row in rows
    )


def _locked(dialect: Dialect, fences: Sequence[tuple[int, int, int]], statuses: str) -> set[int]:
    """Ids of the rows that still match, locked until our transaction ends.

    For databases that cannot say which rows an UPDATE changed.
    """
    ids = sorted(fence[0] for fence in fences)
    template = (
        f"SELECT id, version, claimed_by FROM {{task}} WHERE id IN ({placeholders(len(ids))})"
        f" AND {STATUS_OF_FOUND} IN {statuses} ORDER BY id{dialect.lock}"
    )
    found = set(dialect.fetch(template, ids))
    return {fence[0] for fence in fences if fence in found}


def expect_count(count: int, expected: int) -> None:
    """Rows locked in this very transaction cannot have changed; anything else is a defect."""
    if count != expected:
        raise AssertionError(f"{count} rows changed where {expected} were locked")
