"""What to do while a database does not answer: wait longer each time, and say so only twice."""

from random import uniform
from time import monotonic

from django_tasks import logs

FIRST_DELAY = 0.1
# A try costs what a poll costs; what is waited here is added to every outage.
LONGEST_DELAY = 2.0


class Outage:
    """Of one database, seen by one poller."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._since: float | None = None
        self._failures = 0

    def delay_after(self, error: BaseException, kept: int) -> float:
        """Seconds to wait before the next try; ``kept`` ends are waiting to be written."""
        if self._since is None:
            self._since = monotonic()
            logs.database_down(self._using, error, kept)
        delay: float = min(LONGEST_DELAY, FIRST_DELAY * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        return uniform(0.5, 1.0) * delay

    def is_over(self) -> None:
        """The database has answered."""
        if self._since is not None:
            logs.database_back(self._using, monotonic() - self._since)
        self._since = None
        self._failures = 0
