"""starttask and the web server of the demo, run side by side by honcho."""

import os
import shutil
import signal
import socket
import sys
import time
from shlex import quote

from django.db import connections
from honcho.manager import Manager

from testproject.demo.play import CHECKOUT, LOG
from testproject.demo.screen import Screen
from testproject.demo.words import show_stopping

USUAL_PORT = 8000
END_SECONDS = 60.0  # for a task that runs to end; honcho itself has the patience of 5 s


class Programs(Manager):  # type: ignore[misc]  # it has no types
    """Both programs, each in a session of its own, where Ctrl-C does not reach it.

    The first of SIGINT and SIGTERM, or the end of one of them, stops them with one SIGTERM each.
    """

    def __init__(self, screen: Screen) -> None:
        super().__init__(screen)
        self.ended_by_itself = ""  # a program's name
        self._is_told_to_stop = False
        self._kill_at = float("inf")
        self._add("starttask", "starttask", "-v", "2", **_look())
        # DEBUG, so that it serves the style sheets of the admin.
        address = f"127.0.0.1:{_free_port()}"
        self._add("runserver", "runserver", "--noreload", address, DEBUG="yes")

    def _add(self, name: str, *arguments: str, **environment: str) -> None:
        command = " ".join(map(quote, [sys.executable, "-u", "manage.py", *arguments]))
        self.add_process(
            name,
            f"exec {command} </dev/null 2>>{quote(str(LOG))}",
            env={**os.environ, **environment, "DEMO_PROCESS": str(os.getpid())},
            cwd=str(CHECKOUT),
        )

    def run(self) -> None:
        """Run them until both have ended."""
        connections.close_all()  # honcho forks
        self.loop()

    def terminate(self) -> None:
        """Stop them; honcho can do so when both have told their process ids."""
        self._kill_at = min(self._kill_at, time.monotonic() + END_SECONDS)
        if self._all_started():
            super().terminate()

    def kill(self) -> None:
        if time.monotonic() >= self._kill_at:
            super().kill()

    def _system_print(self, data: str) -> None:
        """Take note of the words about starts, stops and signals; the screen has them logged."""
        super()._system_print(data)
        if data.endswith(" received\n") and not self._is_told_to_stop:
            self._is_told_to_stop = True
            show_stopping()
        if data.partition(" ")[2].startswith("stopped") and not self._is_told_to_stop:
            self.ended_by_itself = self.ended_by_itself or data.partition(" ")[0]
        if self._is_told_to_stop:
            self.terminate()

    @property
    def code_of_starttask(self) -> int:
        """Its exit code; 0 too if it had not even begun when it was stopped."""
        code: int = self._processes["starttask"]["returncode"]
        return 0 if code == -signal.SIGTERM else code


def _look() -> dict[str, str]:
    """The way starttask writes for this terminal, or for a file."""
    if not sys.stdout.isatty():
        return {"COLUMNS": "100"}
    colour = "no" if os.environ.get("NO_COLOR") else "yes"
    return {"COLUMNS": str(shutil.get_terminal_size().columns), "DEMO_COLOUR": colour}


def _free_port() -> int:
    """The usual port of runserver; another one if it is taken."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as runserver does
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("There is no free port.")
