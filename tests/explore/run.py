"""Play many seeds of a cluster in a box, and tell what came of them.

    python -m tests.explore [--seeds N | --seconds S] [--kept] [--jobs N]
    python -m tests.explore --seed N [--prefix D] [--planted NAME] [--trace FILE]
    python -m tests.explore --hunt NAME [--seeds N]

The first form plays new seeds, and with --kept first those that have found something once. The
second plays one again. The third plants a defect and looks for a seed that shows it. The exit code
is 1 if something was found that must not be; when hunting, if nothing was.
"""

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterator
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from tests.explore.kept import kept
from tests.explore.shrink import shortest
from tests.explore.troupe import Part, Troupe

MOST_SHOWN = 5
LONG = 1200


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    troupe = Troupe()
    if options.hunt:
        return hunt(troupe, options)
    if options.seed is not None:
        return again(troupe, options)
    return explore(troupe, options)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.explore",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--seeds", type=int, default=0, help="so many new seeds")
    add("--seconds", type=float, default=inf, help="begin no seed after so many seconds")
    add("--first", type=int, help="the first of the new seeds; otherwise one by chance")
    add("--kept", action="store_true", help="the kept seeds as well, and first")
    add("--jobs", type=int, default=2, help="processes that play at once")
    add("--seed", type=int, help="play this one again")
    add("--prefix", type=int, help="only so many of its decisions, then no more surprises")
    add("--planted", default="", help="with this defect planted")
    add("--trace", type=Path, help="write every step to this file")
    add("--no-shrink", action="store_true", help="look for no shorter schedules")
    add("--hunt", default="", help="plant this defect and look for a seed that shows it")
    return parser.parse_args(arguments)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# New seeds


class Tally:
    """What many plays have come to."""

    def __init__(self) -> None:
        self.seeds = self.steps = self.defects = 0
        self.hours = 0.0
        self.met: Counter[str] = Counter()

    def add(self, result: dict[str, Any]) -> None:
        self.seeds += 1
        self.steps += result["steps"]
        self.hours += result["worker_hours"]
        self.defects += bool(result["accusations"])
        self.met.update({"tasks": result["tasks"], "runs": result["runs"]})
        self.met.update(result["met"])

    def sights(self) -> str:
        """What there was on the way, the most frequent first."""
        return ", ".join(f"{count:,} {what}" for what, count in self.met.most_common())

    def __str__(self) -> str:
        return (
            f"explored {self.seeds:,} seeds: {self.hours:,.0f} worker-hours, {self.steps:,} steps,"
            f" {self.defects} defects"
        )


def explore(troupe: Troupe, options: argparse.Namespace) -> int:
    """Play new seeds, and the kept ones; tell of each that fails."""
    tally, failed, began = Tally(), [], monotonic()
    seeds = itertools.chain(kept() if options.kept else (), _new(options))
    parts = (Part(seed, options.planted) for seed in seeds)
    for part, result in troupe.play(parts, options.jobs):
        tally.add(result)
        if result["accusations"]:
            tell(part, result)
            failed.append((part, result))
    for part, result in failed[: 0 if options.no_shrink else MOST_SHOWN]:
        shrink(troupe, part, result)
    say(f"met: {tally.sights()}")
    say(f"{tally} ({monotonic() - began:.0f} s)")
    return int(tally.defects > 0)


def _new(options: argparse.Namespace) -> Iterator[int]:
    began = monotonic()
    first = random.randrange(1 << 40) if options.first is None else options.first
    count = options.seeds or (1000 if options.seconds == inf else 1 << 40)
    for seed in range(first, first + count):
        if monotonic() - began > options.seconds:
            return
        yield seed


def tell(part: Part, result: dict[str, Any]) -> None:
    """What the checker says of a play, and how to play it again."""
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


def shrink(troupe: Troupe, part: Part, result: dict[str, Any]) -> int:
    """Find and tell the shortest prefix that still fails in one of the ways of the whole."""
    kinds = kinds_of(result)

    def fails(limit: int) -> bool:
        return bool(kinds & kinds_of(troupe.one(part._replace(limit=limit))))

    limit = shortest(result["decisions"], fails)
    whole = result["decisions"]
    say(f"seed {part.seed}: {limit:,} of {whole:,} decisions are enough")
    say(f"    {command(part._replace(limit=limit))}")
    return limit


def kinds_of(result: dict[str, Any]) -> set[str]:
    return {what for what, _ in result["accusations"]}


# One seed


def again(troupe: Troupe, options: argparse.Namespace) -> int:
    """Play one seed, and tell all about it."""
    limit = inf if options.prefix is None else options.prefix
    part = Part(options.seed, options.planted, limit, options.trace is not None)
    result = troupe.one(part)
    if options.trace is not None:
        options.trace.write_text("\n".join(result["trace"]) + "\n", encoding="utf-8")
    tally = Tally()
    tally.add(result)
    if result["accusations"]:
        tell(part, result)
    say(f"digest {result['digest']}, {result['decisions']:,} decisions")
    say(str(tally))
    return int(tally.defects > 0)


# A defect that was planted


def hunt(troupe: Troupe, options: argparse.Namespace) -> int:
    """Look for a seed that shows a planted defect."""
    began, hours = monotonic(), 0.0
    count = options.seeds or 100
    first = 1 if options.first is None else options.first
    parts = (Part(seed, options.hunt) for seed in range(first, first + count))
    for played, (part, result) in enumerate(troupe.play(parts, options.jobs), 1):
        hours += result["worker_hours"]
        if result["accusations"]:
            tell(part, result)
            say(
                f"found {options.hunt}: seed {part.seed}, after {played} seeds,"
                f" {hours:.1f} worker-hours, {monotonic() - began:.1f} s"
            )
            if not options.no_shrink:
                shrink(troupe, part, result)
            return 0
    say(f"{options.hunt} was not found in {count} seeds, {hours:.0f} worker-hours")
    return 1


def _short(text: str) -> str:
    """Of a long text, such as a traceback, the end says most."""
    return text if len(text) < LONG else f"{text[:200]} ... {text[-LONG:]}"
