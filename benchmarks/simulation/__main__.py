"""Simulate up to 1,000 workers on one database.

    python -m benchmarks.simulation [--seed N] [--workers N …] [--strategy NAME …] [--cores N]
                                    [--quick] [--rst [PAGE]] [--picture [DIRECTORY]]
    python -m benchmarks.simulation --check RESULTS.json

All of it takes a minute or two, with one processor. ``--check`` sets the model beside what
``benchmarks.run --measure processes`` has measured.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.simulation.costs import HOSTS, Site

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main() -> int:
    options = _options()
    try:
        import simpy  # noqa: F401
    except ImportError:
        sys.stderr.write("The simulation needs simpy: pip install simpy, or make simulate.\n")
        return 1
    if options.check:
        _check(options.check)
    else:
        _simulate(options)
    return 0


def _check(path: Path) -> None:
    from benchmarks.simulation.check import compare

    for line in compare(json.loads(path.read_text(encoding="utf-8"))):
        _say(line)


def _simulate(options: argparse.Namespace) -> None:
    from benchmarks.simulation import report, runs

    wish = runs.Wish(
        strategies=options.strategy or tuple(runs.PLACES),
        workers=options.workers or (runs.QUICK_WORKERS if options.quick else runs.WORKERS),
        site=Site(cores=options.cores),
        seconds=1.0 if options.quick else runs.Wish.seconds,
        seed=options.seed,
    )
    outcomes = {}
    for key, outcome in runs.run(wish):
        outcomes[key] = outcome
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{key.strategy}, {key.workers} workers, {key.load}\033[K")
    _say(report.text(outcomes))
    if options.rst:
        report.update(options.rst, outcomes)
    if options.picture:
        from benchmarks.simulation.pictures import draw

        draw(outcomes, options.picture)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--seed", type=int, default=1)
    add("--workers", type=int, nargs="+", metavar="N")
    add(
        "--strategy",
        nargs="+",
        choices=("head", "random", "shares", "locked"),
        metavar="NAME",
    )
    add("--cores", type=int, default=HOSTS.cores, help="of the database server")
    add("--quick", action="store_true", help="few workers, one second: whether it runs")
    add("--rst", type=Path, nargs="?", const=DOCS / "understand" / "simulation.rst", metavar="PAGE")
    add("--picture", type=Path, nargs="?", const=DOCS / "pictures", metavar="DIRECTORY")
    add("--check", type=Path, metavar="RESULTS.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
