"""The targets, and the verdict of a run on each."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.plan import PROCESSES
from benchmarks.table import Results, Who, number

Reading = Callable[[Results, str], float | None]


class Target(NamedTuple):
    """``limits`` by database; ``up``: at least, else at most."""

    title: str
    read: Reading
    limits: dict[str, float]
    up: bool = False


class Verdict(NamedTuple):
    target: Target
    database: str
    value: float

    @property
    def reached(self) -> bool:
        limit = self.target.limits[self.database]
        return self.value >= limit if self.target.up else self.value <= limit

    def __str__(self) -> str:
        sign = "≥" if self.target.up else "≤"
        limit = number(self.target.limits[self.database])
        mark = "" if self.reached else " **missed**"
        return f"{number(self.value)} ({sign} {limit}){mark}"


def verdicts(results: Results) -> Iterator[Verdict]:
    for target in TARGETS:
        for database in target.limits:
            value = target.read(results, database)
            if value is not None:
                yield Verdict(target, database, value)


def _ours(results: Results, measure: str, database: str) -> Who:
    """We as we are by default, where that was measured so."""
    default = Who(database, "ours", PROCESSES[database])
    return default if results.turns(measure, default) else Who(database, "ours")


def _plain(measure: str, column: str) -> Reading:
    return lambda results, database: results.median(
        measure, _ours(results, measure, database), column
    )


def _against(measure: str, column: str, other: str) -> Reading:
    """Our share of another contender's number: of the floor's with as many processes."""

    def read(results: Results, database: str) -> float | None:
        ours = _ours(results, measure, database)
        theirs = Who(database, other, ours.processes if other == "floor" else 1)
        return results.share(measure, ours, theirs, column)

    return read


def _of_functions(other: str) -> Reading:
    """Our backend's share of another one's rate."""
    return lambda results, database: results.share(
        "functions", Who(database, "ours-tasks"), Who(database, other), "rate"
    )


def _of_floor(ours: str, floor: str) -> Reading:
    """The share of useful work in the rate of its floor, both in one process."""
    return lambda results, database: results.share(
        "work", Who(database, ours), Who(database, floor), "rate"
    )


def _growth(facts: str, least: str, most: str) -> Reading:
    """The time of a claim as a multiple of the small case."""

    def read(results: Results, database: str) -> float | None:
        turns = results.turns("claim", Who(database, "ours"))
        ratios = [
            turn[facts][most] / turn[facts][least]
            for turn in turns
            if turn[facts].get(most) and turn[facts].get(least)
        ]
        return ratios[0] if ratios else None

    return read


def _wasted(results: Results, database: str) -> float | None:
    return results.median("waste", Who(database, "ours", 4), "wasted")


def _all(limit: float) -> dict[str, float]:
    return {"sqlite": limit, "mariadb": limit, "postgresql": limit}


TARGETS = (
    Target("drain, share of the floor", _against("drain", "rate", "floor"), _all(0.6), up=True),
    Target(
        "drain, times the seed design",
        _against("drain", "rate", "seed"),
        {"sqlite": 40, "mariadb": 40, "postgresql": 60},
        up=True,
    ),
    Target("drain, times huey", _against("drain", "rate", "huey"), {"sqlite": 3}, up=True),
    Target(
        "drain, times django-tasks-db",
        _against("drain", "rate", "django-tasks-db"),
        {"mariadb": 30},
        up=True,
    ),
    Target("drain, times django-q2", _against("drain", "rate", "django-q2"), {"mariadb": 30}, True),
    Target(
        "drain, times graphile-worker",
        _against("drain", "rate", "graphile-worker"),
        {"postgresql": 1.3},
        up=True,
    ),
    Target(
        "drain, times pgqueuer", _against("drain", "rate", "pgqueuer"), {"postgresql": 2}, up=True
    ),
    Target(
        "add_tasks, share of the floor", _against("enqueue", "bulk", "floor"), _all(0.6), up=True
    ),
    Target(
        "add_task one by one, share of the floor",
        _against("enqueue", "single", "floor"),
        _all(0.6),
        up=True,
    ),
    Target("lateness p50, ms", _plain("lateness", "p50"), _all(2)),
    Target(
        "lateness p99, ms", _plain("lateness", "p99"), {"sqlite": 5, "mariadb": 6, "postgresql": 6}
    ),
    Target(
        "pick-up p50, ms", _plain("pickup", "p50"), {"sqlite": 10, "mariadb": 10, "postgresql": 5}
    ),
    Target(
        "pick-up p99, ms", _plain("pickup", "p99"), {"sqlite": 30, "mariadb": 30, "postgresql": 20}
    ),
    Target("idle, statements a minute", _plain("idle", "statements"), _all(70)),
    Target("idle, CPU seconds a minute", _plain("idle", "cpu_seconds"), _all(0.3)),
    Target(
        "claim, 10,000,000 future rows to 10,000", _growth("claim", "10000", "10000000"), _all(1.3)
    ),
    Target("claim, 1,000,000 due rows to 10,000", _growth("due", "10000", "1000000"), _all(1.3)),
    Target("claim, 20 lanes to 1", _growth("lanes", "1", "20"), _all(1.3)),
    Target(
        "claim, 100,000 due rows of an unknown code to none",
        _growth("unknown", "0", "100000"),
        _all(1.3),
    ),
    Target(
        "long drain, rate at the end / at the start",
        _plain("long", "end_to_start"),
        _all(0.8),
        up=True,
    ),
    Target(
        "drain under a held snapshot, rate of the last quarter / of the first",
        _plain("held", "end_to_start"),
        {"mariadb": 0.8, "postgresql": 0.8},
        up=True,
    ),
    Target(
        "busy hour, lateness p99 under a held snapshot / without",
        _plain("busy", "held_to_free"),
        _all(2),
    ),
    Target("2,000 lanes, lateness p99 more than in 10, ms", _plain("lanes", "many_more"), _all(50)),
    Target("700 lanes that were left, the same", _plain("lanes", "left_more"), _all(50)),
    Target(
        "exactly-once batches, share of the floor in batches",
        _of_floor("ours-batch", "floor-batch"),
        {"sqlite": 0.4, "mariadb": 0.6, "postgresql": 0.6},
        up=True,
    ),
    Target(
        "atomic one by one, share of the floor one by one",
        _of_floor("ours-atomic", "floor-single"),
        _all(0.6),
        up=True,
    ),
    Target(
        "plain one by one, share of the floor one by one",
        _of_floor("ours-plain", "floor-single"),
        _all(0.6),
        up=True,
    ),
    Target(
        "calls of functions, times django-tasks-db",
        _of_functions("django-tasks-db"),
        _all(5),
        up=True,
    ),
    Target("calls of functions, times django-ox", _of_functions("django-ox"), _all(3), up=True),
    Target("wasted share, 4 processes", _wasted, {"mariadb": 0.1}),
    Target(
        "10-ms handlers, 32 threads, share of threads alone",
        _against("handlers", "rate", "alone"),
        _all(0.9),
        up=True,
    ),
    Target("short beside long tasks, longest wait, ms", _plain("blocking", "max"), _all(100)),
    Target("memory after a long drain, MB", _plain("long", "memory_end"), _all(80)),
)
