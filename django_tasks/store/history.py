"""The table of runs that have ended: lines come, and go when they are old.

The line of a run is written in the transaction of its end, after that has matched: one line for
each end that counted, and none for one that did not.
"""

from collections.abc import Sequence
from datetime import datetime

from django_tasks.history import Line
from django_tasks.store.dialects import Dialect, dialect_of, marks
from django_tasks.store.transactions import retried

# How many lines one statement deletes, at the most.
PRUNED_AT_ONCE = 1000

_COLUMNS = ", ".join("{when}" if name == "when" else name for name in Line._fields)
# PostgreSQL's types of them.
_TYPES = (
    *("text", "text", "timestamptz", "timestamptz", "timestamptz", "timestamptz"),
    *("text", "text", "integer", "text", "text"),
)


def write(dialect: Dialect, lines: Sequence[Line]) -> None:
    """Add lines."""
    if lines:
        source, params = dialect.source(_TYPES, [_values(dialect, line) for line in lines])
        dialect.execute(f"INSERT INTO {{run}} ({_COLUMNS}) {source}", params)


def record(lines: Sequence[Line], *, using: str) -> None:
    """Add lines of runs whose ends nobody writes."""
    write(dialect_of(using), lines)


@retried
def prune(before: datetime, *, using: str) -> bool:
    """Delete the first of the lines that ended before ``before``; True if there may be more.

    Looked for in the order in which they were written, which needs no index of its own: that is
    nearly the order of time. Race: two workers prune at once; they delete the same lines, in the
    same order.
    """
    dialect = dialect_of(using)
    rows = dialect.fetch(
        f"SELECT id, {dialect.readable('ended')} FROM {{run}} ORDER BY id LIMIT {PRUNED_AT_ONCE}"
    )
    old = [row[0] for row in rows if dialect.from_column(row[1]) < before]
    if old:
        dialect.execute(f"DELETE FROM {{run}} WHERE id IN ({marks(len(old))})", old)
    return len(old) == PRUNED_AT_ONCE


def _values(dialect: Dialect, line: Line) -> tuple[object, ...]:
    time = dialect.to_column
    scheduled = line.scheduled_time and time(line.scheduled_time)
    return (*line[:2], time(line.when), scheduled, time(line.started), time(line.ended), *line[6:])
