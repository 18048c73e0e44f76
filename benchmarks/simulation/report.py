"""The table for a terminal, and what docs/understand/simulation.rst has from a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.rst import table, wrapped
from benchmarks.simulation.model import Outcome
from benchmarks.simulation.runs import LOADS, PLACES, Key
from benchmarks.table import TITLES, number

Outcomes = Mapping[Key, Outcome]

# The page's own words stand around what is between these comments.
BEGIN, END = ".. The simulation's numbers:", ".. End of the simulation's numbers."


def text(outcomes: Outcomes) -> str:
    """A line a run."""
    lines = [["strategy", "workers", "load", "tasks/s", "lost", "statements/s", "p50 ms", "p99 ms"]]
    lines += [
        [
            *(key.strategy, str(key.workers), key.load, number(outcome.rate)),
            *(_share(outcome.wasted), number(outcome.statements), *_late(key, outcome)),
        ]
        for key, outcome in outcomes.items()
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def update(page: Path, outcomes: Outcomes) -> None:
    """Put the tables of a run into the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{rst(outcomes)}\n\n{END}{after}", encoding="utf-8")


def rst(outcomes: Outcomes) -> str:
    return "\n\n".join([*_drain(outcomes), *_lateness(outcomes)])


def _drain(outcomes: Outcomes) -> list[str]:
    words = (
        "A backlog of tasks that do nothing: tasks a second, and the share of the rows read that"
        " somebody else took first."
    )
    return [wrapped(words), _grid(outcomes, "drain")]


def _lateness(outcomes: Outcomes) -> list[str]:
    parts = []
    for name, load in LOADS.items():
        if name != "drain":
            parts += [f"Late by, ms, p50 / p99; load: {load.title}.", _grid(outcomes, name)]
    return parts


def _grid(outcomes: Outcomes, load: str) -> str:
    strategies = list(dict.fromkeys(key.strategy for key in outcomes))
    counts = list(dict.fromkeys(key.workers for key in outcomes))
    rows = [
        [f"{workers:,}", *(_cell(outcomes, Key(load, name, workers)) for name in strategies)]
        for workers in counts
    ]
    return table(["workers", *map(title, strategies)], rows)


def title(strategy: str) -> str:
    return f"{strategy} ({TITLES[PLACES[strategy]]})"


def _cell(outcomes: Outcomes, key: Key) -> str:
    outcome = outcomes[key]
    if key.load == "drain":
        return f"{number(outcome.rate)}; {_share(outcome.wasted)}"
    return " / ".join(dict.fromkeys(_late(key, outcome)))


def _share(share: float) -> str:
    return f"{share:.0%}"


def _late(key: Key, outcome: Outcome) -> Sequence[str]:
    if key.load == "drain":
        return "-", "-"
    if outcome.behind:
        return "behind", "behind"
    return number(1000 * outcome.p50), number(1000 * outcome.p99)
