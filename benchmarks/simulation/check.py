"""The model beside what was measured."""

from collections.abc import Iterator

from benchmarks.simulation.costs import DATABASES, ONE_MACHINE
from benchmarks.simulation.model import Case, simulate
from benchmarks.table import TITLES, Record, Results, number

# What workers do on each database.
OURS = {"sqlite": "locked", "mariadb": "shares", "postgresql": "locked"}


def compare(record: Record) -> Iterator[str]:
    """A line for each number of processes on each database, from the measure "processes"."""
    results = Results(record)
    yield f"{'database':12}{'processes':>10}{'measured':>10}{'model':>10}{'ratio':>8}"
    for who in results.who("processes"):
        measured = results.median("processes", who, "rate")
        if who.contender == "ours" and measured:
            costs = DATABASES[who.database]
            case = Case(costs, OURS[who.database], who.processes, site=ONE_MACHINE)
            rate = simulate(case).rate
            yield (
                f"{TITLES[who.database]:12}{who.processes:10}{number(measured):>10}"
                f"{number(rate):>10}{rate / measured:8.2f}"
            )
