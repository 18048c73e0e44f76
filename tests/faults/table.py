"""The one table: database x fault."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from tests.faults.checker import Verdict
from tests.faults.stage import Size

HEADS = (
    "database",
    "fault",
    "tasks",
    "runs",
    "lost",
    "overlaps",
    "duplicates",
    "early",
    "after cancel",
    "stuck",
    "other",
    "refused",
    "recovery p50/p99",
    "lateness p50/p99/max",
)
_NAMED = {
    "lost": "lost",
    "overlaps": "overlap",
    "duplicates": "duplicate",
    "early": "early",
    "after cancel": "after cancel",
    "stuck": "stuck",
}


class Row(NamedTuple):
    """What came of one fault at one site; ``promised`` is false where zeros are not."""

    site: str
    fault: str
    verdict: Verdict
    promised: bool = True

    @property
    def names(self) -> tuple[str, str]:
        return self.site, self.fault

    @property
    def is_broken(self) -> bool:
        return self.promised and bool(self.verdict.accusations)

    def plus(self, other: "Row") -> "Row":
        """Both together."""
        return self._replace(verdict=self.verdict + other.verdict)


def cells(row: Row) -> list[str]:
    """One row of the table, as text."""
    verdict = row.verdict
    counts = verdict.counts
    named = [counts[what] for what in _NAMED.values()]
    return [
        row.site,
        row.fault,
        str(verdict.tasks),
        str(verdict.runs),
        *map(str, named),
        str(counts.total() - sum(named)),
        str(verdict.refused),
        percentiles(verdict.recovery, 0.5, 0.99),
        percentiles(verdict.lateness, 0.5, 0.99, 1.0),
    ]


def percentiles(ordered: Sequence[float], *shares: float) -> str:
    """Milliseconds, slash by slash."""
    if not ordered:
        return "-"
    places = [min(len(ordered) - 1, int(share * len(ordered))) for share in shares]
    return "/".join(f"{ordered[place] * 1000:.0f}" for place in places)


def line(row: Row) -> str:
    return " ".join(
        f"{head} {cell}," if head not in ("database", "fault") else f"{cell},"
        for head, cell in zip(HEADS, cells(row), strict=True)
    ).rstrip(",")


def text(rows: Sequence[Row]) -> str:
    """The table for a terminal; times in milliseconds."""
    lines = [list(HEADS), *map(cells, rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def page(rows: Sequence[Row], seed: int, size: Size, versions: str) -> str:
    """The table as a page of the documentation."""
    body = "\n".join(_entry(cells(row)) for row in rows)
    heads = _entry(list(HEADS))
    return f"""\
Reliability
===========

What came of each fault on each database: {size.workers} workers with {size.threads} threads each,
{size.clients} clients that add, move, cancel, pause and resume at random, a lease of
{size.lease:g} seconds. Measured on {date.today():%d %B %Y}, seed {seed}; {versions}.

*lost*: acknowledged tasks that never ran to their end. *overlaps*: runs of one key at once whose
owners both could still finish. *duplicates*: ends accepted twice, or effects of ``atomic``
handlers that are there twice. *early*: runs before their time. *after cancel*: starts after a
cancel that said so. *stuck*: rows or workers left in the tables at the end. *other*: wrong
payloads, ends refused without reason, rescues without the right to. All of these must be 0.
*refused*: ends of workers that had been taken for dead, or whose first answer was lost. Times are
milliseconds.

.. list-table::
   :header-rows: 1

{heads}
{body}
"""


def _entry(values: list[str]) -> str:
    first, *rest = values
    return "\n".join([f"   * - {first}", *(f"     - {value}" for value in rest)])
