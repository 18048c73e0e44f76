"""A process that leads a group of its own, and can be signalled without hitting a stranger."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.waiting import eventually


class Leader:
    """One process in a session of its own; ``end`` kills it and all of its group.

    It is reaped by ``end`` alone. Until then a zombie keeps its process id. Linux gives 32,768 of
    them before it begins again, and the tests of three databases use them up within minutes: a
    late SIGKILL for a process that was reaped could end a database server.
    """

    def __init__(self, command: list[str], **options: Any) -> None:
        self._process = subprocess.Popen(command, start_new_session=True, **options)
        self.pid = self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self._process.returncode is not None:
            return self._process.returncode
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def is_running(self) -> bool:
        return self.code is None

    def wait(self, seconds: float) -> int | None:
        """Wait for the end of this process; returns the exit code, None if it still runs."""
        with suppress(AssertionError):
            eventually(lambda: not self.is_running(), f"{self.pid} has ended", deadline=seconds)
        return self.code

    def send(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            os.kill(self.pid, number)

    def send_all(self, number: signal.Signals) -> None:
        """As the terminal does for Ctrl-C."""
        if self._process.returncode is None:
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL for this process alone."""
        self.send(signal.SIGKILL)
        eventually(lambda: not self.is_running(), f"{self.pid} is killed")

    def end(self) -> None:
        """End all processes of the group, in whatever state they are."""
        self.send_all(signal.SIGKILL)
        eventually(lambda: not group(self.pid), f"the group of {self.pid} is gone")
        self._process.wait()


def group(leader: int) -> list[int]:
    """Living processes (zombies are none) of a process group."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            state, process_group = _state_and_group(entry)
            if process_group == leader and state not in "ZX":
                found.append(int(entry))
    return found


def is_alive(pid: int) -> bool:
    return _state_and_group(str(pid))[0] not in "ZX"


def _state_and_group(pid: str) -> tuple[str, int]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "X", -1
    state, _, process_group, *_ = text.rpartition(")")[2].split()
    return state, int(process_group)
