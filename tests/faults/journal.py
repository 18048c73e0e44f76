"""Events, written outside the database under test: append-only JSON lines.

One ``os.write`` on a file opened with O_APPEND a record, so that a process that is killed leaves
whole records only. Times are CLOCK_MONOTONIC, which all processes of one machine share; no fault
here touches it.
"""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

DIRECTORY = "FAULTS_JOURNAL"

_files: dict[tuple[int, str], int] = {}
_numbers = itertools.count(1)


def write(kind: str, **facts: Any) -> None:
    """Append one record to this process's journal; does nothing where there is none."""
    if directory := os.environ.get(DIRECTORY):
        record = {"kind": kind, "at": monotonic(), "pid": os.getpid(), **facts}
        os.write(_file(directory), json.dumps(record, default=str).encode() + b"\n")


def unique() -> str:
    """A name that no other record of this run has; forks included."""
    return f"{os.getpid()}-{next(_numbers)}"


def read(directory: Path) -> list[dict[str, Any]]:
    """Every whole record of every process, in the order of time."""
    return sorted(_records(directory), key=lambda record: record["at"])


def marker(name: str) -> Path:
    """A file beside the journals: that it exists says something to the other processes."""
    return Path(os.environ[DIRECTORY]) / name


def _records(directory: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(directory.glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            # A full disk cuts a record short; nobody was told that it had been written.
            if line.endswith(b"}"):
                yield json.loads(line)


def _file(directory: str) -> int:
    key = (os.getpid(), directory)
    if key not in _files:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        _files[key] = os.open(f"{directory}/{os.getpid()}.jsonl", flags, 0o644)
    return _files[key]


def forget() -> None:
    """Close this process's journals."""
    while _files:
        os.close(_files.popitem()[1])
