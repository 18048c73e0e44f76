"""Processes that are known by their ids and start times, never by their names."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from devtools.messages import Problem
from devtools.servers.waiting import STOP_SECONDS, wait_until


def process_stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (the state) on; None if there is no process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, and may itself contain some.
    return text.rpartition(")")[2].split()


def started_at(pid: int) -> str | None:
    """The start of the process, in the kernel's ticks; None if it does not run (any more).

    A pid together with this number names one process for ever: a recycled pid has another one.
    """
    stat = process_stat(pid)
    # A zombie has ended; its parent (in a container perhaps one that never reaps) did not look.
    if stat is None or stat[0] in "ZX":
        return None
    return stat[19]


@dataclass(frozen=True)
class Process:
    """One process, known by its pid and its start time."""

    pid: int
    started: str

    def runs(self) -> bool:
        return started_at(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        if self.runs():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def children(self) -> list[Process]:
        found = []
        for entry in os.listdir("/proc"):
            stat = process_stat(int(entry)) if entry.isdigit() else None
            if stat is not None and stat[1] == str(self.pid) and stat[0] not in "ZX":
                found.append(Process(int(entry), stat[19]))
        return found

    def kill(self) -> None:
        """SIGKILL the process and its children, and wait until they have gone.

        PostgreSQL's children outlive their parent for a moment, and as long as one of them is
        there the data cannot be opened again.  The parent is stopped first, so that no child
        is born between the listing and the killing.
        """
        self.signal(signal.SIGSTOP)
        family = [self, *self.children()]
        for process in family:
            process.signal(signal.SIGKILL)
        if not wait_until(lambda: not any(process.runs() for process in family), STOP_SECONDS):
            raise Problem(f"Process {self.pid} did not end after SIGKILL.")
