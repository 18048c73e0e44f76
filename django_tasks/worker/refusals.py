"""Ends of runs that the database refuses: tried again, later each time."""

from datetime import timedelta
from threading import Lock

from django_tasks.exceptions import TaskTimeout
from django_tasks.store.errors import is_refusal

# After a refusal, doubled each time.
FIRST_DELAY = timedelta(seconds=1)
LONGEST_DELAY = timedelta(seconds=60)
# Refusals in a row that make a failed attempt.
MOST_REFUSALS = 10


class Refusals:
    """Counts of refusals in a row, by row. For all threads."""

    CAPACITY = 10_000

    def __init__(self, using: str) -> None:
        self._using = using
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

    def forget(self, row_id: int, error: BaseException | None = None) -> None:
        """After any end, unless it failed by an ``error`` that would come again."""
        if self._counts and (error is None or not self.would_come_again(error)):
            with self._lock:
                self._counts.pop(row_id, None)

    def would_come_again(self, error: BaseException) -> bool:
        """Tell if halves would likely fail in the same way, and take as long to do so.

        A database that is down, or the timeout of the whole call: 500 tasks that each wait for it
        would be a thousand calls of one thread.
        """
        if isinstance(error, TimeoutError | TaskTimeout):
            return True
        return isinstance(error, Exception) and is_refusal(error, using=self._using)


def delay_after(refusals: int) -> timedelta:
    """The pause after this number of refusals."""
    return min(FIRST_DELAY * 2.0 ** (refusals - 1), LONGEST_DELAY)
