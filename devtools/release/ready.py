"""The reasons that keep a release back."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from devtools import CHECKOUT
from devtools.release import addresses
from devtools.release.version import version_of

# A section of CHANGES.rst: "1.2.0 (2027-01-31)", or "Unreleased" before the first ones.
HEADING = re.compile(r"^(Unreleased|(\d+\.\d+\.\d+) \(\d{4}-\d{2}-\d{2}\))\n=+$", re.MULTILINE)


def why_not(tag: str | None = None, source: Path = CHECKOUT) -> list[str]:
    """Return each reason, as a sentence; none if the release can begin."""
    version = version_of(source)
    return [
        *_placeholders(source),
        *_changes(source, version),
        *_tag(tag, version),
        *_uncommitted(source),
    ]


def _placeholders(source: Path) -> Iterator[str]:
    file = addresses.FILE.relative_to(CHECKOUT)
    for name in addresses.read(source / file).unset():
        yield f'{file}: "{name}" is a placeholder; give it an address.'


def _changes(source: Path, version: str) -> Iterator[str]:
    found = HEADING.search((source / "CHANGES.rst").read_text(encoding="utf-8"))
    if found is None or found[2] != version:
        first = found[1] if found else "nothing"
        yield f"CHANGES.rst begins with {first}, and not with {version} and its date."


def _tag(tag: str | None, version: str) -> Iterator[str]:
    if tag is not None and tag != f"v{version}":
        yield f"The tag is {tag}, but django_tasks.__version__ says {version}."


def _uncommitted(source: Path) -> Iterator[str]:
    command = ["git", "status", "--porcelain"]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        yield "A release is made of a git checkout, and this is none."
    elif done.stdout:
        yield "There are changes that are not committed."
