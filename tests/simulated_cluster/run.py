"""Play many seeds of a cluster in a box, and tell what came of them.

    python -m tests.simulated_cluster [--seeds N | --seconds S] [--kept] [--jobs N]
    python -m tests.simulated_cluster --seed N [--prefix D] [--planted NAME] [--trace FILE]
    python -m tests.simulated_cluster --hunt NAME|all [--seeds N]

The first form plays new seeds, and with --kept first those that have found something once. The
second plays one again. The third plants a defect and looks for a seed that shows it. The exit code
is 1 if something was found that must not be; when hunting, if nothing was.
"""

import argparse
import itertools
import random
from collections.abc import Iterator
from math import inf
from pathlib import Path
from time import monotonic

from tests.simulated_cluster.hunting import hunt
from tests.simulated_cluster.kept import kept
from tests.simulated_cluster.telling import MOST_SHOWN, Tally, say, shrink, tell
from tests.simulated_cluster.troupe import Part, Troupe

SEEDS = 1000


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
        prog="python -m tests.simulated_cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--seeds", type=int, default=0, help="so many new seeds")
    add("--seconds", type=float, default=inf, help="begin no new seed after so many seconds")
    add("--first", type=int, help="the first of the new seeds; otherwise one by chance")
    add("--kept", action="store_true", help="the kept seeds as well, and first")
    add("--jobs", type=int, default=2, help="processes that play at once")
    add("--seed", type=int, help="play this one again")
    add("--prefix", type=int, help="only so many of its decisions, then no more surprises")
    add("--planted", default="", metavar="NAME", help="with this defect planted")
    add("--trace", type=Path, metavar="FILE", help="write every step to this file")
    add("--no-shrink", action="store_true", help="look for no shorter schedules")
    add("--hunt", default="", metavar="NAME", help="look for a seed that shows this defect")
    return parser.parse_args(arguments)


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
    """New seeds, as many as are wanted, or for as long."""
    began = monotonic()
    first = random.randrange(1 << 40) if options.first is None else options.first
    without_end = options.seconds < inf and not options.seeds
    for seed in itertools.count(first) if without_end else range(first, first + _count(options)):
        if monotonic() - began > options.seconds:
            return
        yield seed


def _count(options: argparse.Namespace) -> int:
    return options.seeds or SEEDS


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
