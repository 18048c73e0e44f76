"""The table of tasks: ids in the order in which they are due, one lane."""

from collections.abc import Sequence
from itertools import compress, islice
from typing import NamedTuple


class Share(NamedTuple):
    """The ids that leave ``rest`` when divided by ``divisor``, from the one at ``offset`` on."""

    divisor: int = 1
    rest: int = 0
    offset: int = 0


HEAD = Share()


class Rows:
    """A byte a row. Others see a row change when its change is committed, and cannot take it from
    the moment of the change on.
    """

    def __init__(self, count: int, rate: float, start: float = 0.0) -> None:
        """From ``start`` on, ``rate`` tasks are due a second, evenly; 0: all at once."""
        self._rate = rate
        self._start = start
        self._pending = bytearray(b"\1") * count  # as everybody sees it
        self._free = bytearray(b"\1") * count  # as it is
        self.ends = bytearray(count)
        self._head = 0

    def due_at(self, row: int) -> float:
        return self._start + row / self._rate if self._rate else 0.0

    def due(self, now: float) -> int:
        """The number that has been due so far, those that have ended included."""
        count = len(self._pending)
        if not self._rate:
            return count
        return min(count, max(0, int((now - self._start) * self._rate) + 1))

    def first(self) -> int:
        """The pending row that is due first; -1 if there is none."""
        found = self._pending.find(1, self._head)
        self._head = len(self._pending) if found < 0 else found
        return found

    def candidates(
        self, now: float, limit: int, share: Share = HEAD, *, unlocked: bool = False
    ) -> tuple[list[int], int]:
        """Rows to take, and how many index entries had to be passed over to find them."""
        self.first()
        wanted = self._free if unlocked else self._pending
        due = self.due(now)
        start = self._head + (share.rest - self._head) % share.divisor
        ids = compress(range(start, due, share.divisor), wanted[start : due : share.divisor])
        found = list(islice(ids, share.offset, share.offset + limit))
        last = found[-1] + 1 if len(found) == limit else due
        return found, self._pending.count(1, self._head, last) - len(found)

    def take(self, rows: Sequence[int]) -> list[int]:
        """Those that nobody else had taken: the guard of the statement."""
        taken = [row for row in rows if self._free[row]]
        for row in taken:
            self._free[row] = 0
        return taken

    def commit(self, rows: Sequence[int]) -> None:
        """Now everybody sees that they are taken."""
        for row in rows:
            self._pending[row] = 0

    def end(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.ends[row] += 1
