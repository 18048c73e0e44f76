"""Limits of a child, at which a fresh process takes its place, and the pause before a successor."""

from dataclasses import dataclass

from django_tasks.host.memory import resident_memory

MEGABYTE = 1_000_000
# A child that lives for less than STEADY_SECONDS may have failed at its start: its successor waits
# for FIRST_DELAY, and each time twice as long.
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0


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


def next_delay(last: float, lived: float) -> float:
    """Seconds until the successor of a process that ``lived`` so long, after a ``last`` delay."""
    return 0.0 if lived >= STEADY_SECONDS else min(LONGEST_DELAY, 2 * last) or FIRST_DELAY
