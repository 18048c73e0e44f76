"""The table of runs that have ended: lines come, and go when they are old.

The line of a run is written in the transaction of its end, after that has matched: one line for
each end that counted, and none for one that did not.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from random import random
from typing import Any

from django.db import DatabaseError

from django_tasks.store.batches import batches
from django_tasks.store.dialects import Dialect, dialect_of, flatten, placeholders
from django_tasks.store.transactions import is_contention, write_transaction
from django_tasks.values.runs import HistoryLine

# How many lines one statement reads, writes or deletes, at most.
AT_ONCE = 1000
# How many places of the table are looked at where its first lines are young.
PROBES = 50

_COLUMNS = ", ".join("{when}" if name == "when" else name for name in HistoryLine._fields)
# PostgreSQL's types of them.
_TYPES = (
    *("text", "text", "timestamptz", "timestamptz", "timestamptz", "timestamptz"),
    *("text", "text", "integer", "text", "text", "text", "jsonb"),
)


def write(dialect: Dialect, lines: Sequence[HistoryLine]) -> None:
    """Add lines, in several statements if they are long; call inside a transaction."""
    for batch in batches(lines, AT_ONCE, lambda line: [line.error, line.detail]):
        source, params = dialect.source(_TYPES, [_values(dialect, line) for line in batch])
        dialect.execute(f"INSERT INTO {{run}} ({_COLUMNS}) {source}", params)


def record(lines: Sequence[HistoryLine], *, using: str) -> None:
    """Add lines of runs whose ends nobody writes; all or none.

    Database errors pass, contention too: a worker that repeated this at once could wait for longer
    than its lease for a locked table.
    """
    with write_transaction(using):
        write(dialect_of(using), lines)


def prune(before: datetime, *, using: str) -> bool:
    """Delete up to 1,000 lines that ended before ``before`` (aware); True if there may be more.

    The table has no index by time. Its first lines are the oldest as a rule. They are not if they
    were written while the clock was ahead, or come from elsewhere. Then a few dozen places of the
    table are looked at, so that a call costs the same however long the table is. It finds every
    stretch of old lines that is longer than a twenty-fifth of the table, and a shorter one by
    chance, after some calls.

    Race: two workers prune at once, or somebody else deletes. Lines that are locked are left for
    the next time, and so is everything if somebody is in the way. Nothing is tried again here: the
    caller has a lease to keep.
    """
    # A few have grown old just now; more follow where many were found.
    return delete_old(before, using=using) * 10 >= AT_ONCE


def delete_old(before: datetime, *, using: str) -> int:
    """Do what ``prune`` does; the number of lines that are gone."""
    try:
        return _prune(dialect_of(using), before)
    except DatabaseError as error:
        if not is_contention(using, error):
            raise
        return 0


def _prune(dialect: Dialect, before: datetime) -> int:
    first = _first_old(dialect, before)
    if first is None:
        return 0
    old = [place for place, ended in _lines(dialect, first, AT_ONCE) if ended < before]
    return _delete(dialect, old) if old else 0


def _first_old(dialect: Dialect, before: datetime) -> int | None:
    """The id of an old line that has a young one before it, or none; None if none is found."""
    head = _lines(dialect, 0, AT_ONCE)
    for place, ended in head:
        if ended < before:
            return place
    if len(head) < AT_ONCE:
        return None
    young = head[-1][0]
    for place, ended in _probes(dialect, young):
        if ended < before:
            return _first_between(dialect, young, place, before)
        young = place
    return None


# An id, and when the first line from there on ended.
Place = tuple[int, datetime]


def _lines(dialect: Dialect, start: int, most: int) -> list[Place]:
    template = _from(dialect) + " LIMIT %s"
    return _places(dialect, dialect.fetch(template, [start, most]))


def _probes(dialect: Dialect, start: int) -> list[Place]:
    ((last,),) = dialect.fetch("SELECT MAX(id) FROM {run}")
    step = max(0, (last or 0) - start) / PROBES
    starts = [start + 1 + int(step * (number + random())) for number in range(PROBES)]
    probe = " ".join(["SELECT * FROM (", _from(dialect), "LIMIT 1) AS probe"])
    rows = dialect.fetch(" UNION ALL ".join([probe] * PROBES), starts)
    return sorted(_places(dialect, rows))


def _first_between(dialect: Dialect, young: int, old: int, before: datetime) -> int:
    while old - young > 1:
        middle = (young + old) // 2
        if any(ended < before for _, ended in _lines(dialect, middle, 1)):
            old = middle
        else:
            young = middle
    return old


def _from(dialect: Dialect) -> str:
    ended = dialect.readable("ended")
    return f"SELECT id, {ended} AS ended FROM {{run}} WHERE id >= %s ORDER BY id"


def _places(dialect: Dialect, rows: Iterable[tuple[Any, ...]]) -> list[Place]:
    return [(row[0], dialect.from_column(row[1])) for row in rows]


def _delete(dialect: Dialect, ids: Sequence[int]) -> int:
    with write_transaction(dialect.connection.alias):
        template = f"SELECT id FROM {{run}} WHERE id IN ({placeholders(len(ids))})"
        free = flatten(dialect.fetch(template + dialect.lock_free_rows, ids))
        if not free:
            return 0
        return dialect.execute(f"DELETE FROM {{run}} WHERE id IN ({placeholders(len(free))})", free)


def _values(dialect: Dialect, line: HistoryLine) -> tuple[object, ...]:
    time = dialect.to_column
    scheduled = line.scheduled_time and time(line.scheduled_time)
    return (*line[:2], time(line.when), scheduled, time(line.started), time(line.ended), *line[6:])
