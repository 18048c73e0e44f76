"""Defects that are planted: each of them must be found, or what finds nothing proves nothing."""

import argparse
from time import monotonic

from tests.simulated_cluster.telling import say, shrink, tell
from tests.simulated_cluster.troupe import Part, Troupe

ALL = "all"
# The most seeds that are played for one of them. Plays are of a minute or two.
SEEDS = 300


def hunt(troupe: Troupe, options: argparse.Namespace) -> int:
    """Hunt one or all of them; 1 if one was not found."""
    from tests.simulated_cluster.planted import PLANTED  # which needs the product

    names = list(PLANTED) if options.hunt == ALL else [options.hunt]
    if options.hunt not in (ALL, *PLANTED):
        say(f"{options.hunt} is none of {', '.join(PLANTED)}")
        return 2
    lines = [_hunt(name, troupe, options) for name in names]
    if len(lines) > 1:
        for _, line in lines:
            say(line)
    return int(not all(is_found for is_found, _ in lines))


def _hunt(name: str, troupe: Troupe, options: argparse.Namespace) -> tuple[bool, str]:
    """Look for a seed that shows a planted defect; tell if there was one, and in which words."""
    began, hours = monotonic(), 0.0
    count = options.seeds or SEEDS
    first = 1 if options.first is None else options.first
    parts = (Part(seed, name) for seed in range(first, first + count))
    for played, (part, result) in enumerate(troupe.play(parts, options.jobs), 1):
        hours += result["worker_hours"]
        if result["accusations"]:
            tell(part, result)
            line = (
                f"found {name}: seed {part.seed}, after {played} seeds, {hours:.1f} worker-hours,"
                f" {monotonic() - began:.1f} s"
            )
            say(line)
            if not options.no_shrink:
                shrink(troupe, part, result)
            return True, line
    line = f"{name} was not found in {count} seeds, {hours:.0f} worker-hours"
    say(line)
    return False, line
