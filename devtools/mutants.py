"""Mutants of the core: a sample of small changes of its code, each of which some test must notice.

    nox -s mutants -- [--sample 100] [--seed N]     the sample that the seed chooses
    nox -s mutants -- NAME...                       these mutants, as mutmut names them

Each database's tests try the mutants that the ones before did not notice. The type checker, which
every change must pass, is asked about the rest. The tests that start workers as processes try
those that it lets pass: nothing tells which of them reach a mutant, so all are run.
Survivors are shown as differences. The mutants stand in mutants/ and are used again by the next
call. DATABASES names the databases.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from devtools import CHECKOUT, mutated
from devtools.databases import TITLES, private, there
from devtools.messages import say
from devtools.servers.places import RUNTIME

MUTANTS = CHECKOUT / "mutants"

# The tests that each mutant reaches differ by database.
STATISTICS = MUTANTS / "mutmut-stats.json"

PROCESS_TESTS = ("tests/integration", "tests/environments/test_isolated.py")
PROCESS_TESTS_SECONDS = 1200

# mutmut's exit codes of tests that have noticed nothing: they passed, or there are none.
UNNOTICED = (0, 5, 33)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    os.environ["TEST_DEADLINE"] = "15"  # seconds; it is spent for what a mutant has broken
    names = options.names
    unnoticed: list[str] = []
    for number, database in enumerate(there("DATABASES")):
        with _tested_on(database):
            if number == 0:
                names = names or _sample(options.sample, options.seed)
                unnoticed = names
            unnoticed = _unnoticed(unnoticed)
        say(f"{TITLES[database]}: {len(unnoticed)} of {len(names)} have not been noticed.")
    if unnoticed:
        refused = mutated.refused_by_types(MUTANTS)
        unnoticed = [name for name in unnoticed if name not in refused]
        say(f"The type checker: {len(unnoticed)} of {len(names)} have not been noticed.")
    if unnoticed and _processes_notice("no mutant"):
        sys.exit("The tests of processes fail without any mutant: see above.")
    survivors = [name for name in unnoticed if not _processes_notice(name)]
    for name in survivors:
        _mutmut("show", name)
    print(f"Seed {options.seed}: {len(names) - len(survivors)} of {len(names)} were noticed.")
    return int(20 * len(survivors) > len(names))


@contextmanager
def _tested_on(database: str) -> Iterator[None]:
    """Make the mutants, and learn which tests of this database reach each."""
    STATISTICS.unlink(missing_ok=True)
    with private(database) as url:
        os.environ["DATABASE_URL"], os.environ["SERVERS_DIR"] = url, str(RUNTIME)
        _learn()
        yield
    del os.environ["DATABASE_URL"]


def _learn() -> None:
    """Run the tests once without a mutant; mutmut notes what each of them reaches.

    It does so before it complains that there is no mutant of the name that it is asked for.
    """
    command = [sys.executable, "-m", "mutmut", "run", "no such mutant"]
    result = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if not STATISTICS.exists():
        sys.exit(f"{result.stdout}{result.stderr}\nThe tests fail without any mutant: see above.")


def _mutmut(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "mutmut", *arguments], cwd=CHECKOUT, check=False)


def _sample(count: int, seed: int) -> list[str]:
    names = _results().keys() - mutated.of_case_alone(MUTANTS)
    return random.Random(seed).sample(sorted(names), count)


def _unnoticed(names: list[str]) -> list[str]:
    """Try mutants; give those that no test has noticed."""
    if not names:
        return []
    _forget(names)
    _mutmut("run", "--max-children", "1", *names)  # they share one test database
    results = _results()
    if untried := [name for name in names if results.get(name) is None]:
        sys.exit(f"{len(untried)} mutants were not tried: see above. The first is {untried[0]}.")
    return [name for name in names if results[name] in UNNOTICED]


def _results() -> dict[str, int | None]:
    """The exit code of the tests by mutant; None where they have not been run."""
    results: dict[str, int | None] = {}
    for path in MUTANTS.rglob("*.meta"):
        results |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return results


def _forget(names: list[str]) -> None:
    """Remove the results of another database, which would be read if mutmut fails on this one."""
    for path in MUTANTS.rglob("*.meta"):
        data = json.loads(path.read_text(encoding="utf-8"))
        results = data["exit_code_by_key"]
        data["exit_code_by_key"] = {
            name: results[name] if name not in names else None for name in results
        }
        path.write_text(json.dumps(data, indent=4), encoding="utf-8")


def _processes_notice(name: str) -> bool:
    """Tell if a test of processes fails with a mutant, on SQLite."""
    # mutmut's code reads the name of the mutant there, in the processes that tests start as well.
    environment = {**os.environ, "MUTANT_UNDER_TEST": name}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", *PROCESS_TESTS]
    try:
        result = subprocess.run(
            command, cwd=MUTANTS, env=environment, timeout=PROCESS_TESTS_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return result.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
