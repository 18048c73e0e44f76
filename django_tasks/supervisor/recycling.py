"""Limits of a child process: when one is reached, a fresh process takes its place."""

from dataclasses import dataclass

from django_tasks.host.memory import resident_memory

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
