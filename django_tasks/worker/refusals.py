"""Ends of runs that the database refuses: tried again, later each time."""

from datetime import timedelta
from threading import Lock

# After a refusal, doubled each time.
FIRST_DELAY = timedelta(seconds=1)
LONGEST_DELAY = timedelta(seconds=60)
# Refusals in a row that make a failed attempt.
MOST_REFUSALS = 10


class Refusals:
    """Counts of refusals in a row, by row. For all threads."""

    CAPACITY = 10_000

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[int, int] = {}

    def note(self, row_id: int) -> int:
        """Count one more; returns the count."""
        with self._lock:
            count = self._counts.pop(row_id, 0) + 1
            if len(self._counts) >= self.CAPACITY:
                self._counts.pop(next(iter(self._counts)))  # the oldest
            self._counts[row_id] = count
            return count

    def has(self, row_id: int) -> bool:
        """Tell if the last end of this row was refused."""
        return row_id in self._counts

    def forget(self, row_id: int) -> None:
        if self._counts:
            with self._lock:
                self._counts.pop(row_id, None)


def delay_after(refusals: int) -> timedelta:
    """The pause after this number of refusals."""
    return min(FIRST_DELAY * 2.0 ** (refusals - 1), LONGEST_DELAY)
