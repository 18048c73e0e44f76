"""Turns: what is too long for each run of the tests is run in parts, one commit after the other."""

import subprocess
from pathlib import Path

from devtools import CHECKOUT


def of_commit(parts: int, checkout: Path = CHECKOUT) -> tuple[int, str]:
    """Choose one of ``parts`` by the number of commits; returns it, and what it was chosen by.

    A clone without its history cannot count: there the commit's hash says which. As many commits
    in a row may then leave something out.
    """
    commit = _git(checkout, "rev-parse", "HEAD")
    if not commit:
        return 0, "no git repository"
    if _git(checkout, "rev-parse", "--is-shallow-repository") == "true":
        return int(commit, 16) % parts, f"a clone without history, commit {commit[:12]}"
    count = int(_git(checkout, "rev-list", "--count", "HEAD"))
    return count % parts, f"{count} commits"


def _git(checkout: Path, *arguments: str) -> str:
    """The answer of git; nothing if it is not there or cannot."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=checkout, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
