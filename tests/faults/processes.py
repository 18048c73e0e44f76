"""The processes of a scenario: workers, and stewards that ask the database."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from devtools import CHECKOUT

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108


def faketime() -> str:
    """The library that gives a process a clock of its own; empty if it is not installed."""
    return next(map(str, Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), "")


class DatabaseError(Exception):
    """An error that the steward met."""


class Steward:
    """A child process that carries out commands in the database; see ``steward.py``."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.steward"],
            cwd=CHECKOUT,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, name: str, *arguments: Any) -> Any:
        """Carry out a command; DatabaseError if the database was not there."""
        self.tell(name, *arguments)
        return self.answer()

    def tell(self, name: str, *arguments: Any) -> None:
        """Begin a command; fetch its ``answer`` before the next one."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, f"The steward has died: {Path(self._log.name).read_text()[-3000:]}"
        answer = json.loads(line)
        if "error" in answer:
            raise DatabaseError(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()
        self._log.close()


class Worker:
    """One ``starttask`` in a process group of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", arguments: tuple[str, ...]) -> None:
        self._process = process
        self.arguments = arguments
        self.pid = process.pid
        self.was_told_to_end = False

    def pids(self) -> list[int]:
        """The processes that run tasks: its children if it has some."""
        return self.children() or [self.pid]

    def children(self) -> list[int]:
        """The processes that it has started; none yet just after its start."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        with suppress(OSError):
            return [int(pid) for pid in path.read_text().split()]
        return []

    def signal(self, number: signal.Signals, pid: int | None = None) -> None:
        """Signal it, or one of its children."""
        if pid is None and number in (signal.SIGTERM, signal.SIGKILL):
            self.was_told_to_end = True
        with suppress(ProcessLookupError):
            os.kill(pid or self.pid, number)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or None if it still runs."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def destroy(self) -> None:
        """Leave nothing of it and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        # A process that is killed leaves those of its false clock.
        for name in (f"faketime_shm_{self.pid}", f"sem.faketime_sem_{self.pid}"):
            (SHARED_MEMORY / name).unlink(missing_ok=True)
