"""Limits of a child process: when one is reached, a fresh process takes its place."""

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Recycling:
    """``tasks`` that a child may run, and megabytes of ``memory`` that it may hold; None: any."""

    tasks: int | None = None
    memory: int | None = None

    def __bool__(self) -> bool:
        return self.tasks is not None or self.memory is not None

    def reached(self, tasks: int) -> str:
        """The limit that a process has reached which has run ``tasks``; empty if none."""
        if self.tasks is not None and tasks >= self.tasks:
            return f"{tasks} task" if tasks == 1 else f"{tasks} tasks"
        if self.memory is not None and (held := resident_memory() // MEGABYTE) >= self.memory:
            return f"{held} MB"
        return ""


def resident_memory() -> int:
    """Bytes of memory that this process holds; where no /proc is, the most it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
