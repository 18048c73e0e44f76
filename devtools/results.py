"""Failed tests of all sessions, told once more at the end.

A continuous integration shows the last lines of a log first, and each session's own summary stands
far above them.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from devtools.messages import say
from devtools.servers.places import RUNTIME

DIRECTORY = RUNTIME / "results"

REASON_CHARACTERS = 300


def forget() -> None:
    """Remove the results of earlier runs."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)


def option(name: str) -> str:
    """The option by which pytest leaves its results for that session."""
    return f"--junitxml={DIRECTORY / name}.xml"


def lines(name: str) -> Path:
    """The file in which that session leaves its failures, a line each, if it is not pytest's."""
    return DIRECTORY / f"{name}.txt"


def tell_failures() -> None:
    """Tell each test that has failed, with its session and the first line of the reason."""
    for path in sorted(DIRECTORY.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            say(f"failed in {path.stem}: {line[:REASON_CHARACTERS]}")
    for path in sorted(DIRECTORY.glob("*.xml")):
        for test, reason in _failures(path):
            say(f"failed on {path.stem}: {test}: {reason[:REASON_CHARACTERS]}")


def _failures(path: Path) -> Iterator[tuple[str, str]]:
    for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314  written by our own pytest
        for problem in (*case.iter("failure"), *case.iter("error")):
            lines = problem.get("message", "").splitlines()
            yield f"{case.get('classname')}.{case.get('name')}", lines[0] if lines else ""
