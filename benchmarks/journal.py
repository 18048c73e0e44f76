"""The start of each task, to be read from outside.

A file of doubles, one a task, mapped into every process that runs tasks and into the one that
measures. Writing down a start costs a handler some 0.2 µs and no system call, the same for every
contender; looking on costs the database nothing.
"""

import mmap
import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep, time

VARIABLE = "BENCHMARK_JOURNAL"
LOOK_SECONDS = 0.005


class Journal:
    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._times = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")
        self._complete = 0

    @classmethod
    def create(cls, path: Path, tasks: int) -> "Journal":
        """An empty journal for tasks 0, 1, …, ``tasks`` - 1."""
        path.write_bytes(bytes(8 * tasks))
        return cls(path)

    def record(self, number: int) -> None:
        """Task ``number`` starts now. A second start of it takes the place of the first."""
        self._times[number] = time()

    def note(self, number: int, seconds: float) -> None:
        """Task ``number`` has this lateness: above zero, for zero says that it has not started."""
        self._times[number] = max(seconds, 1e-9)

    def has(self, number: int) -> bool:
        """Tell if it has started."""
        return bool(self._times[number])

    def times(self, tasks: int | None = None) -> Sequence[float]:
        """The start of each, by number; 0.0 if there was none."""
        return array("d", self._times[:tasks])

    def complete(self, tasks: int) -> bool:
        """Tell if the first ``tasks`` have all started. Each number is looked at once only."""
        while self._complete < tasks and self._times[self._complete]:
            self._complete += 1
        return self._complete >= tasks

    def wait(
        self, tasks: int, seconds: float, meanwhile: Callable[[], object] | None = None
    ) -> None:
        deadline = monotonic() + seconds
        while not self.complete(tasks):
            if meanwhile:
                meanwhile()
            if monotonic() > deadline:
                raise TimeoutError(f"task {self._complete} of {tasks} did not start")
            sleep(LOOK_SECONDS)


def opened() -> Journal:
    """The journal of the worker that runs here."""
    return Journal(Path(os.environ[VARIABLE]))


def recorder() -> Callable[[int], None]:
    """For a handler: the function to call with the number of its task."""
    return opened().record
