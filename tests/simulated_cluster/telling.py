"""The lines that the command prints: of one play, of many, and how to play one again."""

import sys
from collections import Counter
from math import inf
from typing import Any

from tests.simulated_cluster.shrink import shortest
from tests.simulated_cluster.troupe import Part, Troupe

MOST_SHOWN = 5
LONG = 1200

Result = dict[str, Any]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Tally:
    """The sums over many plays."""

    def __init__(self) -> None:
        self.seeds = self.steps = self.defects = 0
        self.hours = 0.0
        self.met: Counter[str] = Counter()

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.steps += result["steps"]
        self.hours += result["worker_hours"]
        self.defects += bool(result["accusations"])
        self.met.update({"tasks": result["tasks"], "runs": result["runs"]})
        self.met.update(result["met"])

    def sights(self) -> str:
        """The events of all plays, the most frequent first."""
        return ", ".join(f"{count:,} {what}" for what, count in self.met.most_common())

    def __str__(self) -> str:
        return (
            f"explored {self.seeds:,} seeds: {self.hours:,.0f} worker-hours, {self.steps:,} steps,"
            f" {self.defects} defects"
        )


def tell(part: Part, result: Result) -> None:
    """Tell what the checker says of a play, and how to play it again."""
    counts = Counter(what for what, _ in result["accusations"])
    say(f"seed {part.seed}: {dict(counts)}; {result['steps']:,} steps")
    for what, text in result["accusations"][:MOST_SHOWN]:
        say(f"    {what}: {_short(text)}")
    say(f"    {command(part)}")


def command(part: Part) -> str:
    """The command that plays a part again."""
    words = [f"make explore ARGS='--seed {part.seed}"]
    words += [f"--prefix {part.limit}"] if part.limit < inf else []
    words += [f"--planted {part.planted}"] if part.planted else []
    return " ".join(words) + "'"


def shrink(troupe: Troupe, part: Part, result: Result) -> int:
    """Find and tell the shortest prefix that still fails in one of the ways of the whole."""
    whole, kinds = result["decisions"], _kinds(result)

    def fails(limit: int) -> bool:
        return bool(kinds & _kinds(troupe.one(part._replace(limit=limit))))

    limit = shortest(whole, fails)
    say(f"seed {part.seed}: {limit:,} of {whole:,} decisions are enough")
    say(f"    {command(part._replace(limit=limit))}")
    return limit


def _kinds(result: Result) -> set[str]:
    return {what for what, _ in result["accusations"]}


def _short(text: str) -> str:
    """Of a long text, such as a traceback, the end says most."""
    return text if len(text) < LONG else f"{text[:200]} ... {text[-LONG:]}"
