"""Medians and spreads of a run, and shares that were taken within its rounds."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

Record = dict[str, Any]


class Column(NamedTuple):
    """A number that a measure gives; ``up``: more is better."""

    name: str
    title: str
    up: bool = True


_LATE = (
    Column("p50", "p50, ms", up=False),
    Column("p99", "p99, ms", up=False),
    Column("max", "max, ms", up=False),
)
_RATE = Column("rate", "tasks/s")
_DRAIN = (_RATE, Column("cpu_us", "CPU a task, µs", up=False))

COLUMNS: dict[str, tuple[Column, ...]] = {
    "drain": _DRAIN,
    "enqueue": (
        Column("bulk", "in bulk, tasks/s"),
        Column("bulk_with_making", "made and added in bulk, tasks/s"),
        Column("single", "one by one, tasks/s"),
    ),
    "functions": _DRAIN,
    "function-calls": (
        Column("bulk_with_making", "in bulk, calls/s"),
        Column("single", "one by one, calls/s"),
    ),
    "lateness": _LATE,
    "pickup": _LATE,
    "idle": (
        Column("statements", "statements a minute", up=False),
        Column("cpu_seconds", "CPU seconds a minute", up=False),
    ),
    "history": _DRAIN,
    "work": _DRAIN,
    "processes": (_RATE,),
    "waste": (Column("wasted", "wasted share of what was read", up=False), _RATE),
    "handlers": (_RATE,),
    "blocking": _LATE,
    "held": (
        _RATE,
        Column("end_to_start", "rate of the last quarter / of the first"),
        Column("wal_mb", "MB of SQLite's log at the end", up=False),
    ),
    "busy": (
        *_LATE,
        Column("held_p50", "p50 under a snapshot, ms", up=False),
        Column("held_p99", "p99 under a snapshot, ms", up=False),
        Column("held_to_free", "p99 under it / without", up=False),
    ),
    "lanes": (
        *_LATE,
        Column("many_p50", "p50 in 2,000 lanes, ms", up=False),
        Column("many_p99", "p99 in 2,000 lanes, ms", up=False),
        Column("left_p99", "p99 beside 700 that were left, ms", up=False),
    ),
    "long": (
        _RATE,
        Column("end_to_start", "rate at the end / at the start"),
        Column("memory_tenth", "MB after a tenth", up=False),
        Column("memory_half", "MB after half", up=False),
        Column("memory_end", "MB at the end", up=False),
    ),
}

TITLES = {
    "sqlite": "SQLite",
    "mariadb": "MariaDB",
    "postgresql": "PostgreSQL",
    "redis": "Redis",
}

# Whom the others are compared with, and how that is written.
PEERS = {
    "floor-batch": "of the floor in batches",
    "floor-single": "of the floor one by one",
    "floor": "of the floor",
    "seed": "of the seed design",
    "alone": "of threads alone",
}


class Who(NamedTuple):
    """A contender with so many processes, on a database."""

    database: str
    contender: str
    processes: int = 1

    @property
    def title(self) -> str:
        return f"{self.contender} x {self.processes}" if self.processes > 1 else self.contender


class Results:
    """The turns of a run that went well, by measure, contender and round."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._turns: dict[str, dict[Who, dict[int, Record]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        for turn in record["turns"]:
            if "error" not in turn:
                who = Who(turn["database"], turn["contender"], turn["processes"])
                self._turns[turn["measure"]][who][turn["round"]] = turn

    def measures(self) -> list[str]:
        return list(self._turns)

    def who(self, measure: str, database: str = "") -> list[Who]:
        """Everybody of whom something was measured, in the order of the run."""
        return [who for who in self._turns[measure] if database in ("", who.database)]

    def turns(self, measure: str, who: Who) -> list[Record]:
        return list(self._turns[measure].get(who, {}).values())

    def other_run(self, measure: str) -> str:
        """The run from which its turns were taken over; nothing if they are of this one."""
        turns = (turn for who in self.who(measure) for turn in self.turns(measure, who))
        return next((str(turn["other_run"]) for turn in turns if "other_run" in turn), "")

    def values(self, measure: str, who: Who, column: str) -> list[float]:
        return [float(turn[column]) for turn in self.turns(measure, who) if column in turn]

    def median(self, measure: str, who: Who, column: str) -> float | None:
        values = self.values(measure, who, column)
        return median(values) if values else None

    def share(self, measure: str, who: Who, other: Who, column: str) -> float | None:
        """Of another contender's number in the same round; the median over the rounds."""
        own, others = self._turns[measure].get(who, {}), self._turns[measure].get(other, {})
        shares = [
            turn[column] / others[number][column]
            for number, turn in own.items()
            if column in turn and others.get(number, {}).get(column)
        ]
        return median(shares) if shares else None

    def peer(self, measure: str, who: Who, name: str) -> Who | None:
        """The contender of that name on the same database, with as many processes if it can."""
        forms = {
            other.processes: other
            for other in self.who(measure, who.database)
            if other.contender == name
        }
        return forms.get(who.processes) or forms.get(1)

    def peers(self, measure: str, who: Who, column: str) -> dict[str, float]:
        """The shares of those of PEERS that took part."""
        others = {name: self.peer(measure, who, name) for name in PEERS}
        shares = {
            name: self.share(measure, who, other, column)
            for name, other in others.items()
            if other and other.contender != who.contender
        }
        return {name: share for name, share in shares.items() if share is not None}

    def failures(self) -> dict[tuple[str, str, str], str]:
        """(database, measure, contender) → the last line of what went wrong."""
        return {
            (turn["database"], turn["measure"], turn["contender"]): _last_line(turn["error"])
            for turn in self.record["turns"]
            if "error" in turn
        }


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["?"])[-1]


def number(value: float | None) -> str:
    """Three digits that mean something, for people."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    return f"{number(min(values))} to {number(max(values))}" if len(values) > 1 else ""


def text(record: Record) -> str:
    """For a terminal."""
    results = Results(record)
    heads = ["database", "measure", "contender", "", "median", "spread", *PEERS]
    rows = [heads, *_rows(results)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _rows(results: Results) -> Iterator[list[str]]:
    for measure in results.measures():
        for who in results.who(measure):
            for column in COLUMNS.get(measure, ()):
                if values := results.values(measure, who, column.name):
                    shares = results.peers(measure, who, column.name) if column.up else {}
                    cells = [who.database, measure, who.title, column.title]
                    cells += [number(median(values)), spread(values)]
                    yield cells + [number(shares[name]) if name in shares else "" for name in PEERS]


def by_database(who: Iterable[Who]) -> Mapping[str, list[Who]]:
    """In the order of TITLES."""
    everybody = list(who)
    grouped = {name: [each for each in everybody if each.database == name] for name in TITLES}
    return {name: people for name, people in grouped.items() if people}
