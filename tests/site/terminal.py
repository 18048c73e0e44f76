"""The commands of a page, typed into a terminal as the page shows them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from devtools import CHECKOUT
from tests.site.comparing import begins, differences, same
from tests.waiting import eventually

INTERRUPTED = "^C"
FAILED = "CommandError"
ASKS_FOR_CODE = "echo $?"
SECONDS = 60.0
SILENT_LOOKS = 50  # half a second
# Exit codes. One below 0 is that of a process that a signal has ended.
SUCCESS = (0,)
AFTER_INTERRUPTION = (0, 128 + signal.SIGINT, -signal.SIGINT)
FAILURE = range(1, 256)
ANY = range(-64, 256)
# The next command finds the folder, the variables and the exit code of the last one.
SCRIPT = """
[ -f {state} ] && . {state}
(exit {code})
{command}
code=$?
{{ export -p; echo "cd '$PWD'"; }} > {state}
exit $code
"""


@dataclass
class Command:
    """A command, the output that the page shows, and the exit codes that are right."""

    text: str
    wanted: str
    codes: Container[int] = SUCCESS


def commands(text: str, exits_with: str = "") -> list[Command]:
    """The commands of a block: each behind a prompt, its further lines behind ``> ``.

    Each ends with exit code 0, unless the page shows that it fails. ``exits_with``, the number of
    the order, is the exit code of the last one.
    """
    found = _commands(text)
    for command, following in zip(found, [*found[1:], None], strict=True):
        command.codes = _codes(command, following)
    if exits_with:
        found[-1].codes = (int(exits_with),)
    return found


def _codes(command: Command, following: Command | None) -> Container[int]:
    if following and following.text.startswith(ASKS_FOR_CODE):
        return ANY  # the page shows it
    if any(line.startswith(FAILED) for line in command.wanted.splitlines()):
        return FAILURE
    return AFTER_INTERRUPTION if INTERRUPTED in command.wanted.splitlines() else SUCCESS


def _commands(text: str) -> list[Command]:
    found: list[Command] = []
    is_open = False
    for line in text.splitlines():
        if line.startswith("$ ") and not is_open:
            found.append(Command(line[2:], ""))
            is_open = line.endswith("\\")
        elif is_open or (line.startswith("> ") and not found[-1].wanted):
            found[-1].text += "\n" + line.removeprefix("> ")
            is_open = is_open and line.endswith("\\")
        else:
            found[-1].wanted += line + "\n"
    return found


@dataclass
class Terminal:
    """A terminal in the project's folder."""

    place: Path
    code: int = 0
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    number: int = 0

    def type(self, command: Command, times_differ: bool, keeps_running: bool) -> str:
        """Run a command, and say what is wrong with its output."""
        self.number += 1
        output = self.place.parent / f"output-{self.number}.txt"
        process = self._start(command.text, output)
        shown, interrupted, rest = command.wanted.partition(INTERRUPTED + "\n")
        if keeps_running or interrupted:
            problem = self._wait_for(shown, process, output, times_differ)
            if problem or keeps_running:
                return problem
            _wait_for_silence(output)
            os.killpg(process.pid, signal.SIGINT)
        try:
            self.code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return f"It still runs after {SECONDS:g} s:\n$ {command.text}\n{output.read_text()}"
        return self._judge(command, shown + rest, output.read_text(), times_differ)

    def _judge(self, command: Command, wanted: str, came: str, times_differ: bool) -> str:
        if wanted.strip() and not same(wanted, came, times_differ):
            return f"The output is another one:\n$ {command.text}\n{differences(wanted, came)}"
        if self.code not in command.codes:
            return f"The exit code is {self.code}:\n$ {command.text}\n{came}"
        return ""

    def _start(self, command: str, output: Path) -> "subprocess.Popen[bytes]":
        state = self.place.parent / "terminal"
        script = SCRIPT.format(state=state, code=self.code, command=command)
        with output.open("wb") as stream:
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.place,
                env=environment(self.place),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def _wait_for(
        self, wanted: str, process: "subprocess.Popen[bytes]", output: Path, times_differ: bool
    ) -> str:
        def has_come() -> bool:
            return process.poll() is not None or begins(wanted, output.read_text(), times_differ)

        with suppress(AssertionError):
            eventually(has_come, "the output of the page has come")
        came = output.read_text()
        if begins(wanted, came, times_differ):
            return ""
        return f"The output is another one:\n{differences(wanted, came)}"

    def close(self) -> None:
        """End all that runs, as Ctrl-C does; kill what stays."""
        for process in self.running:
            for number in (signal.SIGINT, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                    process.wait(SECONDS / 4)
                except (ProcessLookupError, PermissionError):
                    break
                except subprocess.TimeoutExpired:
                    continue


def _wait_for_silence(output: Path) -> None:
    """Let what has just told of its end come to it: a worker says that a run is done a little
    before the thread of that run is free, and a Ctrl-C in between would find it still running.
    """
    seen: list[int] = []

    def is_silent() -> bool:
        seen.append(output.stat().st_size)
        return seen[-SILENT_LOOKS:] == [seen[-1]] * SILENT_LOOKS

    eventually(is_silent, "the output has come to a rest")


def environment(place: Path) -> dict[str, str]:
    """The environment of a user who has activated the environment of the project."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not re.match("DJANGO_|PYTEST_|DATABASE_URL|COV_|FAULTS", name)
    }
    return kept | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(place), str(CHECKOUT)]),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
    }
