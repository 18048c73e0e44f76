"""The processes of a scenario: workers, and stewards that ask the database."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from devtools import CHECKOUT
from tests.leader import Leader

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


class Worker(Leader):
    """One ``starttask`` in a process group of its own."""

    def __init__(
        self, arguments: tuple[str, ...], environment: Mapping[str, str], log: Path
    ) -> None:
        with log.open("ab") as output:
            super().__init__(
                [sys.executable, "manage.py", "starttask", *arguments],
                cwd=CHECKOUT,
                env=environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        self.arguments = arguments
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

    def ended_with(self, seconds: float) -> int | None:
        """Wait for its end; the exit code, but 0 where 1 is right: at a deadline that is short."""
        code = self.wait(seconds)
        return 0 if code == 1 and "--shutdown-timeout" in self.arguments else code

    def send(self, number: signal.Signals) -> None:
        if number in (signal.SIGTERM, signal.SIGKILL):
            self.was_told_to_end = True
        super().send(number)

    def destroy(self) -> None:
        """Leave nothing of it and its children."""
        self.end()
        # A process that is killed leaves those of its false clock.
        for name in (f"faketime_shm_{self.pid}", f"sem.faketime_sem_{self.pid}"):
            (SHARED_MEMORY / name).unlink(missing_ok=True)
