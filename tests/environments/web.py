"""Real web servers: started, asked, stopped, and gone when the test is over."""

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from devtools.setup.venv import left_out
from tests.integration.process import ROOT
from tests.leader import Leader, group
from tests.vendor import fail_for_want
from tests.waiting import DEADLINE, eventually

SCRIPTS = Path(sys.prefix) / "bin"


def program(name: str) -> str:
    """The path of a server's program.

    Where it is not there the test fails, or is skipped if scripts/setup has left it out by name.
    """
    path = SCRIPTS / name
    if path.exists():
        return str(path)
    reason = left_out().get("uWSGI" if name == "uwsgi" else name)
    if reason:
        fail_for_want(f"{name} is missing: {reason}")
    pytest.fail(f"There is no {path}: run scripts/setup test")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site(Leader):
    """A server in a session of its own, with the site behind it."""

    def __init__(
        self, command: list[str], port: int, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._port = port
        self._log = folder / "log"
        self._notes = folder / "notes"
        with open(self._log, "wb") as output:
            super().__init__(
                command,
                cwd=ROOT,
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "tests.environments.site.settings",
                    "PYTHONPATH": str(ROOT),
                    "SITE_NOTES": str(self._notes),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def get(self) -> int:
        """The status of an answer; the server has the deadline to give it."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE)
        try:
            connection.request("GET", "/")
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def wait_until_it_listens(self) -> None:
        def listens() -> bool:
            assert self.is_running(), f"It has ended:\n{self.log()}"
            with socket.socket() as line:
                return line.connect_ex(("127.0.0.1", self._port)) == 0

        eventually(listens, "the server listens", log=self.log)

    def notes(self, begin: str) -> Counter[str]:
        """The notes of all processes that begin so, and how many times each was made."""
        if not self._notes.exists():
            return Counter()
        lines = self._notes.read_text(encoding="utf-8").splitlines()
        notes = (line.partition(" ")[2] for line in lines)
        return Counter(note for note in notes if note.startswith(begin))

    def stop(self) -> int:
        """Tell it to stop, and wait for the end of all its processes; returns the exit code."""
        self.send(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        eventually(
            lambda: not self.is_running() and not group(self.pid),
            "the server has ended, and all its processes with it",
            log=self.log,
        )
        assert self.code is not None
        return self.code


@contextmanager
def served(command: list[str], folder: Path, **environment: str) -> Iterator[Site]:
    """Run a server; ``PORT`` in its command is replaced by a free one."""
    port = free_port()
    words = [program(command[0]), *(word.replace("PORT", str(port)) for word in command[1:])]
    site = Site(words, port, folder, environment)
    try:
        yield site
    finally:
        site.end()
