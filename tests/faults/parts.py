"""The suite in parts, one for each of as many commits in a row."""

import subprocess
from pathlib import Path

from devtools import CHECKOUT
from tests.faults.acts import SCENARIOS
from tests.faults.databases import SITES

Play = tuple[str, str]

PARTS = 5


def plays() -> list[Play]:
    """Every site and every fault that there is at it."""
    return [
        (site, scenario.name)
        for site in SITES
        for scenario in SCENARIOS.values()
        if site in scenario.sites
    ]


def part(number: int) -> set[Play]:
    """One of the parts, with faults at each database."""
    return set(plays()[number::PARTS])


def of_commit(checkout: Path = CHECKOUT) -> tuple[int, str]:
    """Choose a part by the number of commits; returns it, and what it was chosen by.

    A clone without its history cannot count: there the commit's hash says which. Five in a row
    may then leave something out.
    """
    commit = _git(checkout, "rev-parse", "HEAD")
    if not commit:
        return 0, "no git repository"
    if _git(checkout, "rev-parse", "--is-shallow-repository") == "true":
        return int(commit, 16) % PARTS, f"a clone without history, commit {commit[:12]}"
    count = int(_git(checkout, "rev-list", "--count", "HEAD"))
    return count % PARTS, f"{count} commits"


def _git(checkout: Path, *arguments: str) -> str:
    """The answer of git; nothing if it is not there or cannot."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=checkout, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
