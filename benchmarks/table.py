"""Medians and spreads of a run, and shares that were taken within its rounds."""

from collections import defaultdict
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

Record = dict[str, Any]
# Whom everybody is compared with.
PEERS = ("floor", "seed", "alone")
Key = tuple[str, str, str, int, int]

# The numbers of each measure that go into the table.
COLUMNS: dict[str, tuple[str, ...]] = {
    "drain": ("rate", "cpu_us"),
    "enqueue": ("bulk", "bulk_with_making", "single"),
    "lateness": ("p50", "p99", "max"),
    "pickup": ("p50", "p99", "max"),
    "idle": ("statements", "cpu_seconds"),
    "processes": ("rate",),
    "waste": ("wasted", "rate"),
    "handlers": ("rate",),
    "blocking": ("p50", "p99", "max"),
    "long": ("rate", "end_to_start", "memory_tenth", "memory_half", "memory_end"),
}


class Line(NamedTuple):
    """One number of one contender over all rounds."""

    database: str
    measure: str
    contender: str
    processes: int
    tasks: int
    column: str
    values: tuple[float, ...]
    shares: dict[str, float]  # of another contender in the same round, median

    @property
    def median(self) -> float:
        return median(self.values)


def lines(record: Record) -> Iterator[Line]:
    """In the order of the plan."""
    turns: dict[Key, dict[int, Record]] = defaultdict(dict)
    for turn in record["turns"]:
        if "error" not in turn:
            turns[_key(turn)][turn["round"]] = turn
    for key, rounds in turns.items():
        for column in COLUMNS.get(key[1], ()):
            values = tuple(float(turn[column]) for turn in rounds.values() if column in turn)
            if not values:
                continue
            others = {name: _others(turns, key, name) for name in PEERS}
            shares = {name: _share(rounds, other, column) for name, other in others.items()}
            found = {name: share for name, share in shares.items() if share is not None}
            yield Line(*key, column, values, found)


def _key(turn: Record) -> Key:
    return (turn["database"], turn["measure"], turn["contender"], turn["processes"], turn["tasks"])


def _others(turns: dict[Key, dict[int, Record]], key: Key, name: str) -> dict[int, Record]:
    """The turns of another contender with as many processes, or of its only form."""
    database, measure, _, processes, _ = key
    forms = {
        other[3]: rounds
        for other, rounds in turns.items()
        if other[:3] == (database, measure, name)
    }
    return forms.get(processes) or forms.get(1) or {}


def _share(own: dict[int, Record], other: dict[int, Record], column: str) -> float | None:
    shares = [
        own[number][column] / other[number][column]
        for number in own
        if column in own[number] and other.get(number, {}).get(column)
    ]
    return median(shares) if shares else None


def text(record: Record) -> str:
    """For a terminal."""
    heads = ["database", "measure", "tasks", "contender", "", "median", "spread", "floor", "seed"]
    rows = [heads, *(_cells(line) for line in lines(record))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _cells(line: Line) -> list[str]:
    many = f" x{line.processes}" if line.processes > 1 else ""
    floor, seed = line.shares.get("floor"), line.shares.get("seed")
    return [
        line.database,
        line.measure,
        str(line.tasks),
        line.contender + many,
        line.column,
        f"{line.median:,.4g}" if line.median < 1000 else f"{line.median:,.0f}",
        f"{min(line.values):,.4g}-{max(line.values):,.4g}",
        f"{floor:.2f}" if floor else "",
        f"{seed:.1f}x" if seed else "",
    ]
