"""Real ``starttask`` processes: started, read, signalled, and gone when the test is over."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.leader import Leader, group
from tests.waiting import DEADLINE, eventually

ROOT = Path(__file__).resolve().parent.parent.parent
# What the log says once a worker takes notes of signals.
LISTENS = (" polls ", "trying again")


class StartTask(Leader):
    """One ``manage.py starttask`` in a session of its own; ``end`` kills it and its children."""

    def __init__(
        self,
        *flags: str,
        log: Path,
        environment: Mapping[str, str],
        command: tuple[str, ...] = ("manage.py", "starttask"),
        cwd: Path = ROOT,
    ) -> None:
        self._log = log
        self._flags = flags
        with open(log, "wb") as output:
            super().__init__(
                [sys.executable, *command, *flags],
                cwd=cwd,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def says(self, words: str, times: int = 1) -> str:
        """Wait until the log has ``words``; returns the log."""
        eventually(
            lambda: self.log().count(words) >= times or self._over(words, times),
            f"starttask {' '.join(self._flags)} says {words!r}",
            log=self.log,
        )
        return self.log()

    def _over(self, words: str, times: int) -> bool:
        """Fail early: a process that has ended says nothing more."""
        if self.is_running() or self.log().count(words) >= times:
            return False
        raise AssertionError(f"It ended ({self.code}) without saying {words!r}:\n{self.log()}")

    def ended(self, deadline: float = DEADLINE) -> int:
        """Wait for the end; returns the exit code."""
        eventually(
            lambda: not self.is_running(),
            f"starttask {' '.join(self._flags)} has ended",
            deadline=deadline,
            log=self.log,
        )
        assert self.code is not None
        return self.code

    def stop(self) -> int:
        """SIGTERM as soon as it listens to that, and wait; returns the exit code."""
        eventually(
            lambda: any(words in self.log() for words in LISTENS) or not self.is_running(),
            "it has started",
            log=self.log,
        )
        self.send(signal.SIGTERM)
        return self.ended()

    def children(self) -> list[int]:
        """The process ids of its group, but for its own, that are alive."""
        return sorted(set(group(self.pid)) - {self.pid})


class Journal:
    """The lines that handlers wrote down."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, event: str | None = None, key: str | None = None) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        # A reader may meet the half of a write: a line counts once its end is there.
        written = self.path.read_text().splitlines(keepends=True)
        lines = [json.loads(line) for line in written if line.endswith("\n")]
        return [
            line for line in lines if event in (None, line["event"]) and key in (None, line["key"])
        ]

    def keys(self, event: str) -> list[str]:
        return [line["key"] for line in self.lines(event)]

    def wait(self, event: str, key: str | None = None, times: int = 1) -> dict[str, Any]:
        """Wait for such a line; returns the last one."""
        return eventually(
            lambda: self.lines(event, key)[times - 1 :],
            f"{times} times {event} of {key or 'any task'}",
            log=lambda: "\n".join(str(line) for line in self.lines()),
        )[-1]

    def overlaps(self) -> list[tuple[str, float]]:
        """Keys that ran twice at the same time, by the intervals of their ends."""
        found: list[tuple[str, float]] = []
        until: dict[str, float] = {}
        for line in sorted(self.lines("end"), key=lambda line: line["start"]):
            if line["start"] < until.get(line["key"], 0.0):
                found.append((line["key"], line["start"]))
            until[line["key"]] = max(until.get(line["key"], 0.0), line["now"])
        return found
