"""The sums of all that was ever counted, by code, without reading all of it each time.

A counter must never fall, in none of the processes that answer the same scrape. So each answer is
exact: the sum of all rows that are there, however they were merged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django_tasks.store import minutes
from django_tasks.store.minutes import HOUR, Mark, minute_of
from django_tasks.values.figures import Figures, figures_of

# By then each worker has written its own, and those of all workers are merged.
SETTLED = timedelta(minutes=15)
# The last minutes: workers still write them.
LAST_MINUTES = 3
FOREVER = 2**31 - 1

Sums = Mapping[str, list[float]]


class _Part(NamedTuple):
    mark: Mark
    sums: Sums


class _Older(NamedTuple):
    closed: Mark
    open: Mapping[int, Mark]
    sums: Sums


class _Kept(NamedTuple):
    """The part of all minutes before ``border``, and that of each minute from there on.

    ``older`` is the sum of all but the last minutes.
    """

    border: int
    closed: _Part
    open: Mapping[int, _Part]
    older: _Older


class Totals:
    """The totals of one database. Any thread may ask.

    Two cheap statements ask for marks: of all minutes before a border, the beginning of an hour,
    together, and of each minute from there on. What has the mark that it had before has the sums
    that it had before. As a rule that is all but the last minutes. Every two minutes some more are
    read, when the rows of several workers were merged. All of it is read a few times an hour: at a
    new border, or where a worker has written what it had counted through an outage.

    No row crosses the border: an hour's minutes are merged into its first one, and what becomes
    part of all time is older than a week.

    Race: rows come or are merged between the look at a mark and the look at its sums. The sums are
    right at their moment, and are kept under a mark that will not be met again, because no set of
    rows comes back. What is written late is in this answer or in the next one.
    """

    def __init__(self) -> None:
        # Frozen, and put in its place by one assignment: no thread waits for another.
        self._kept: _Kept | None = None

    def read(self, now: datetime, *, using: str) -> dict[str, Figures]:
        """The figures of each code since the beginning. Database errors pass."""
        settled = minute_of(now - SETTLED)
        border = settled - settled % HOUR
        kept = self._kept
        if kept is not None and kept.border != border:
            kept = None
        closed = _closed(border, kept.closed if kept else None, using)
        parts = _open(border, kept.open if kept else {}, using)
        last = minute_of(now) - LAST_MINUTES
        older = _older(closed, parts, last, kept.older if kept else None)
        self._kept = _Kept(border, closed, parts, older)
        recent = (part.sums for at, part in parts.items() if at > last)
        found = _added((older.sums, *recent))
        return {code: figures_of(values) for code, values in found.items()}


def _closed(border: int, kept: _Part | None, using: str) -> _Part:
    mark = minutes.mark(border, using=using)
    if kept is not None and kept.mark == mark:
        return kept
    found = minutes.sums(0, border, by_code=True, using=using)
    return _Part(mark, {code: values for code, _, values in found})


def _open(border: int, kept: Mapping[int, _Part], using: str) -> dict[int, _Part]:
    marks = minutes.marks(border, using=using)
    same = {at: kept[at] for at, mark in marks.items() if at in kept and kept[at].mark == mark}
    first = min(marks.keys() - same.keys(), default=None)
    if first is None:
        return same
    sums: dict[int, dict[str, list[float]]] = defaultdict(dict)
    for code, at, values in minutes.sums(first, FOREVER, by_code=True, step=1, using=using):
        sums[at][code] = values
    return {
        at: same[at] if at < first else _Part(mark, sums.get(at, {})) for at, mark in marks.items()
    }


def _older(closed: _Part, parts: Mapping[int, _Part], last: int, kept: _Older | None) -> _Older:
    marks = {at: part.mark for at, part in parts.items() if at <= last}
    if kept is not None and (kept.closed, kept.open) == (closed.mark, marks):
        return kept
    sums = (closed.sums, *(parts[at].sums for at in marks))
    return _Older(closed.mark, marks, _added(sums))


def _added(parts: Iterable[Sums]) -> dict[str, list[float]]:
    by_code: dict[str, list[list[float]]] = defaultdict(list)
    for sums in parts:
        for code, values in sums.items():
            by_code[code].append(values)
    return {code: list(map(sum, zip(*rows, strict=True))) for code, rows in by_code.items()}
