"""Mutants of the core: a sample of small changes of its code, each of which some test must notice.

    nox -s mutants -- [--sample 100] [--seed N]     the sample that the seed chooses
    nox -s mutants -- NAME...                       these mutants, as mutmut names them

DATABASE_URL says on which database the tests run. Survivors are shown as differences. What mutmut
makes stands in mutants/ and is used again by the next call.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

from devtools import CHECKOUT
from devtools.messages import say

MUTANTS = CHECKOUT / "mutants"

# mutmut's exit codes of tests that have noticed nothing: they passed, or there are none.
UNNOTICED = (0, 5, 33)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    _mutmut("run", "no such mutant")  # makes all of them, and learns which tests reach each
    names = options.names or _sample(options.sample, options.seed)
    _mutmut("run", "--max-children", "1", *names)  # they share one test database
    return _report(names, options.seed)


def _mutmut(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "mutmut", *arguments], cwd=CHECKOUT, check=False)


def _sample(count: int, seed: int) -> list[str]:
    return random.Random(seed).sample(sorted(_results()), count)


def _results() -> dict[str, int | None]:
    """The exit code of the tests by mutant; None where they have not been run."""
    results: dict[str, int | None] = {}
    for path in Path(MUTANTS).rglob("*.meta"):
        results |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return results


def _report(names: list[str], seed: int) -> int:
    results = _results()
    if untried := [name for name in names if results.get(name) is None]:
        say(f"{len(untried)} of {len(names)} mutants were not tried: see what mutmut says above.")
        return 1
    survivors = [name for name in names if results[name] in UNNOTICED]
    for name in survivors:
        _mutmut("show", name)
    print(f"Seed {seed}: {len(names) - len(survivors)} of {len(names)} mutants were noticed.")
    return int(20 * len(survivors) > len(names))


if __name__ == "__main__":
    sys.exit(main())
