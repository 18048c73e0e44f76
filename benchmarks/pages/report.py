"""Tables of what was measured: a line a page, a column a database and a number of rows."""

from collections.abc import Iterator
from typing import Any

from benchmarks import rst as markup
from devtools.databases import TITLES

Records = list[dict[str, Any]]

# Milliseconds that a page may take among a million rows; among ten million twice as long.
MOST = 300
FULL, TEN_TIMES = 1_000_000, 10_000_000


def is_slow(record: dict[str, Any]) -> bool:
    """Tell if a page took longer than it may."""
    return bool(record.get("ms", 0) > MOST * (2 if record["rows"] >= TEN_TIMES else 1))


def text(records: Records) -> str:
    """For a terminal; what is too slow is marked, and its slowest statement told."""
    heads, *rows = _table(records)
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]
    return "\n".join([*lines, *_faults(records)])


def rst(records: Records) -> str:
    """For the documentation."""
    heads, *rows = _table(records)
    return markup.table(heads, rows)


def _table(records: Records) -> Iterator[list[str]]:
    columns = sorted({(list(TITLES).index(r["database"]), r["rows"]) for r in records})
    names = [(list(TITLES)[place], rows) for place, rows in columns]
    found = {(r["page"], r["database"], r["rows"]): r for r in records}
    yield ["page", "statements", *(f"{TITLES[name]}, {rows:,}" for name, rows in names)]
    for page in dict.fromkeys(record["page"] for record in records):
        cells = [found.get((page, name, rows)) for name, rows in names]
        queries = {cell["queries"] for cell in cells if cell and "queries" in cell}
        count = " to ".join(str(n) for n in sorted({min(queries), max(queries)})) if queries else ""
        yield [page, count, *map(_cell, cells)]


def _cell(record: dict[str, Any] | None) -> str:
    if record is None:
        return "-"
    if "error" in record:
        return "error"
    mark = " (!)" if is_slow(record) else ""
    return f"{record['ms']:,.0f} ms{mark}"


def _faults(records: Records) -> Iterator[str]:
    for record in records:
        place = f"{record['page']}, {record['database']}, {record['rows']:,}"
        if "error" in record:
            yield f"\n{place}: {record['error']}"
        elif is_slow(record):
            yield f"\n{place}: {record['slowest_ms']} ms of it in {record['slowest']}"
