"""The table of counted minutes: what workers have done, by code; the figures that people ask for.

A worker adds rows and never changes one, so two workers never wait for each other. The rows of all
workers for a minute are merged into one of each code after some minutes, those of an hour later,
and those that are older than the history into one row of each code for ever. To merge is to add the
sum and to delete its parts, in one transaction.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import DatabaseError, transaction

from django_tasks.host.clocks import EPOCH
from django_tasks.store.dialects import Dialect, dialect_of, placeholders
from django_tasks.store.transactions import is_contention, write_transaction
from django_tasks.values.figures import COLUMNS, COUNTED, FAILURES, SUMMED, exactly

HOUR = 60
# Minutes: what is older and was left, because no worker was there, stays as it is until it is old.
# A look does not walk through the hours of a month.
FAR_BACK = 24 * HOUR
# How many rows one statement adds, or one piece merges.
AT_ONCE = 500

_KEY = ("worker", "biz_code", "exception", "minute", "span")
_NAMES = ", ".join((*_KEY, *COLUMNS))
# PostgreSQL's types of them.
_TYPES = (
    *("bigint", "text", "text", "integer", "smallint"),
    *("bigint",) * len(COUNTED),
    *("double precision",) * len(SUMMED),
)
_SUMS = ", ".join(f"SUM({name})" for name in COLUMNS)
_FAILURES = " + ".join(f"SUM({name})" for name in FAILURES)


class Counted(NamedTuple):
    """The counts of one code in one minute, in the order of COLUMNS.

    With an ``exception`` they are those of the runs that have failed with it.
    """

    minute: int
    biz_code: str
    exception: str
    values: Sequence[float]


class FailureCount(NamedTuple):
    """The failures of a code with one exception: how many, and the first and the last minute."""

    biz_code: str
    exception: str
    times: int
    first: int
    last: int


def minute_of(moment: datetime) -> int:
    """The whole minutes from 1970 UTC to ``moment`` (aware)."""
    return int((moment - EPOCH).total_seconds()) // 60


def add(worker_id: int, rows: Sequence[Counted], *, using: str) -> None:
    """Add the counts of a worker; all or none. Database errors pass, contention too."""
    dialect = dialect_of(using)
    lines = [
        (worker_id, row.biz_code, row.exception, row.minute, 1, *exactly(row.values))
        for row in rows
    ]
    if len(lines) <= AT_ONCE:  # as nearly always: one statement
        _insert(dialect, lines)
        return
    with write_transaction(using):
        for start in range(0, len(lines), AT_ONCE):
            _insert(dialect, lines[start : start + AT_ONCE])


def _insert(dialect: Dialect, rows: Sequence[tuple[Any, ...]]) -> None:
    source, params = dialect.source(_TYPES, rows)
    dialect.execute(f"INSERT INTO {{minute}} ({_NAMES}) {source}", params)


# Merging


def merge_workers(before: int, *, using: str) -> bool:
    """Merge the rows of all workers for minutes before ``before``; True if there may be more.

    Else a page about the last hours reads as many rows as there are workers, times the codes. What
    is written more than an hour late waits for ``merge_hours``, whose races are those of this.
    """
    dialect = dialect_of(using)
    rows = dialect.fetch(
        f"SELECT {_all()} FROM {{minute}} WHERE minute >= %s AND minute < %s AND span = 1"
        " AND worker <> 0 ORDER BY minute, biz_code, exception, id LIMIT %s",
        [before - HOUR, before, AT_ONCE],
    )
    return bool(rows) and _merge(dialect, rows, lambda minute: (minute, 1))


def merge_hours(before: int, *, using: str) -> bool:
    """Merge minutes of one hour that ended by the minute ``before``; True if there may be more.

    Races: another worker merges as well, or adds to that hour meanwhile. See ``_merge``.
    """
    # A code after the other. A piece leaves one row of each code in it. Each look at a week reads
    # these rows, and each scrape counts them. So a piece costs a look at the whole hour: of 20
    # codes it has 2,400 rows.
    template = (
        f"SELECT {_all()} FROM {{minute}} WHERE span = 1 AND minute >= %s AND minute < %s"
        " ORDER BY biz_code, exception, id LIMIT %s"
    )
    dialect = dialect_of(using)
    # The condition by time stands alone: it is what the index serves.
    first = dialect.fetch(
        "SELECT minute FROM {minute} WHERE minute >= %s AND minute < %s AND span = 1"
        " ORDER BY minute LIMIT 1",
        [before - FAR_BACK, before - before % HOUR],
    )
    if not first:
        return False
    hour = first[0][0] - first[0][0] % HOUR
    rows = dialect.fetch(template, [hour, hour + HOUR, AT_ONCE])
    return _merge(dialect, rows, lambda minute: (hour, HOUR))


def merge_old(before: int, *, using: str) -> bool:
    """Merge rows from before the minute ``before`` into those of all time; True if there is more.

    What was counted by exception goes: it was the news of its day. The same races.
    """
    dialect = dialect_of(using)
    template = (
        f"SELECT {_all()} FROM {{minute}} WHERE minute > 0 AND minute < %s ORDER BY minute LIMIT %s"
    )
    rows = dialect.fetch(template, [before, AT_ONCE])
    if not rows:
        return False
    codes = sorted({row[2] for row in rows})
    template = (
        f"SELECT {_all()} FROM {{minute}} WHERE minute = 0"
        f" AND biz_code IN ({placeholders(len(codes))})"
    )
    rows += dialect.fetch(template, codes)
    return _merge(dialect, rows, lambda minute: ALL_TIME)


def _all() -> str:
    return f"id, {_NAMES}"


# A minute and a span.
Place = tuple[int, int]
ALL_TIME: Place = (0, 0)


def _merge(
    dialect: Dialect, rows: Iterable[tuple[Any, ...]], place_of: Callable[[int], Place]
) -> bool:
    """Put the sums of rows, as they were read, in their place; False if somebody was quicker.

    ``place_of`` answers for the minute of a row. Those of all time are kept without exceptions.

    Race: another worker merges the same rows. Rows are never changed, so those that are there
    still are as they were read; if one of them is gone, all is rolled back.
    """
    sums: dict[tuple[str, str, int, int], list[float]]
    sums = defaultdict(lambda: [0] * len(COLUMNS))
    ids = []
    for row_id, _, code, exception, minute, _, *values in rows:
        ids.append(row_id)
        place = place_of(minute)
        if place != ALL_TIME or not exception:
            total = sums[(code, exception, *place)]
            total[:] = [one + other for one, other in zip(total, values, strict=True)]
    try:
        with write_transaction(dialect.connection.alias):
            template = f"DELETE FROM {{minute}} WHERE id IN ({placeholders(len(ids))})"
            if dialect.execute(template, sorted(ids)) != len(ids):
                transaction.set_rollback(True, using=dialect.connection.alias)
                return False
            if sums:  # else all was by exception
                _insert(dialect, [(0, *key, *sums[key]) for key in sorted(sums)])
    except DatabaseError as error:
        if not is_contention(dialect.connection.alias, error):
            raise
        return False
    return True


# Reading


def sums(
    since: int, until: int, *, biz_code: str = "", step: int = 0, by_code: bool = False, using: str
) -> list[tuple[str, int, list[float]]]:
    """Sums in the order of COLUMNS for the minutes from ``since`` to before ``until``.

    One for each code if ``by_code``, and for each ``step`` minutes since 1970 if that is given;
    else one for all. Each with its code ("" for all) and its first minute (0 for all).
    """
    code = "biz_code" if by_code else "''"
    # In the mode ORACLE of MariaDB there is no operator for it.
    place = f"minute - MOD(minute, {step:d})" if step else "0"
    condition = "minute >= %s AND minute < %s AND exception = ''"
    params: list[Any] = [since, until]
    if biz_code:
        condition, params = f"{condition} AND biz_code = %s", [*params, biz_code]
    grouping = [name for name, wanted in ((code, by_code), (place, step)) if wanted]
    template = f"SELECT {code}, {place}, {_SUMS} FROM {{minute}} WHERE {condition}"
    if grouping:
        template += f" GROUP BY {', '.join(grouping)}"
    found = dialect_of(using).fetch(template, params)
    return [(name, int(minute), [float(v or 0) for v in values]) for name, minute, *values in found]


class Mark(NamedTuple):
    """A mark of a set of rows: as long as it is the same, so are they.

    A row is never changed, and no id is given twice. Each change of the set but a mere deletion
    adds rows, whose ids are higher than those that were there: it leaves the number, or the sum of
    the ids, another one.
    """

    rows: int
    ids: int


def mark(until: int, *, using: str) -> Mark:
    """The mark of all rows that sums are of, for minutes before ``until``, and of all time."""
    template = (
        "SELECT COUNT(*), SUM(id) FROM {minute}"
        " WHERE exception = '' AND minute >= 0 AND minute < %s"
    )
    ((rows, ids),) = dialect_of(using).fetch(template, [until])
    return Mark(int(rows), int(ids or 0))


def marks(since: int, *, using: str) -> dict[int, Mark]:
    """The mark of each minute from ``since`` on that has rows that sums are of."""
    template = (
        "SELECT minute, COUNT(*), SUM(id) FROM {minute}"
        " WHERE exception = '' AND minute >= %s GROUP BY minute"
    )
    rows = dialect_of(using).fetch(template, [since])
    return {int(minute): Mark(int(count), int(ids)) for minute, count, ids in rows}


def failures(since: int, *, using: str) -> list[FailureCount]:
    """Failures from the minute ``since`` on, by code and exception; the most frequent first."""
    template = (
        f"SELECT biz_code, exception, {_FAILURES}, MIN(minute), MAX(minute + span - 1)"
        " FROM {minute} WHERE minute >= %s AND exception <> ''"
        " GROUP BY biz_code, exception"
    )
    rows = dialect_of(using).fetch(template, [since])
    found = [FailureCount(row[0], row[1], int(row[2]), *row[3:]) for row in rows]
    return sorted(found, key=lambda group: (-group.times, *group[:2]))
