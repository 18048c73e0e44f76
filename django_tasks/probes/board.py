"""Signs of life of the processes of one ``starttask``, in memory that they share."""

import mmap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django_tasks.host.clocks import ticks
from django_tasks.worker.condition import Condition

_BYTES = 8  # of a number
# The moment of a process that is not there.
NOBODY = 0.0


@dataclass(frozen=True, slots=True)
class Sign:
    """One process as its line tells: its last sign of life, and the conditions of its workers."""

    moment: float
    conditions: tuple[Condition, ...]

    @property
    def is_there(self) -> bool:
        return self.moment != NOBODY


@dataclass(frozen=True, slots=True)
class ProbeSigns:
    """All lines of a board. ``watching`` is the process that judges the others."""

    watching: Sign
    processes: tuple[Sign, ...]


class Slot:
    """The numbers of one process. Written by that while it lives, by its supervisor otherwise."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = numbers

    def expect(self) -> None:
        """Count from now on the time until the first sign of a process that is being started."""
        self.beat([Condition.STARTING] * (len(self._numbers) - 1))

    def beat(self, conditions: Iterable[Condition]) -> None:
        """Give a sign of life."""
        for place, condition in enumerate(conditions, 1):
            self._numbers[place] = float(condition)
        self._numbers[0] = ticks()

    def leave(self) -> None:
        """Note that the process is gone."""
        self._numbers[0] = NOBODY
        for place in range(1, len(self._numbers)):
            self._numbers[place] = float(Condition.ENDED)

    def read(self) -> Sign:
        return Sign(self._numbers[0], tuple(Condition(int(each)) for each in self._numbers[1:]))


class Board:
    """A line for each process, and one for the process that watches them. Make it before a fork.

    Nobody waits for a lock: each number is an aligned double, which is written and read at once,
    and means something without its neighbours. A process that is killed leaves no half of one.
    """

    def __init__(self, processes: int, workers: int) -> None:
        """``workers`` are those of each process."""
        width = 1 + workers
        numbers: Any = memoryview(mmap.mmap(-1, _BYTES * width * (1 + processes))).cast("d")
        lines = [Slot(numbers[row * width : (row + 1) * width]) for row in range(1 + processes)]
        self.watching, self.processes = lines[0], lines[1:]
        for line in lines:
            line.expect()

    def read(self) -> ProbeSigns:
        """All signs, as they are now."""
        return ProbeSigns(self.watching.read(), tuple(line.read() for line in self.processes))
