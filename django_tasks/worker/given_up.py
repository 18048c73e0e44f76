"""Runs that have not ended by their ``kill_after``, and the ends that were told of them.

Their rows stay owned while they run, so that nothing starts beside them. Their ends are written as
the last act of the process, or when the run ends after all.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Settled, settled
from django_tasks.worker.executor import Item, is_given_up


class GivenUp:
    """For all threads: each use of the dict and of the set is one atomic operation."""

    def __init__(self) -> None:
        # By id and version of the claim: the end that was told. And those that nobody writes yet.
        self._ends: dict[tuple[int, ...], Ended] = {}
        self._unwritten: set[tuple[int, ...]] = set()
        # Those that are just being given up, and ends of their own that wait for what is told.
        self._awaited: set[tuple[int, ...]] = set()
        self._kept: list[Ended] = []

    @contextmanager
    def expected(self, claims: Sequence[Claimed]) -> Iterator[None]:
        """Let nothing become of ends of their own meanwhile, unless these are told."""
        fences = [claimed[:2] for claimed in claims]
        self._awaited.update(fences)
        try:
            yield
        finally:
            self._awaited.difference_update(fences)

    def add(self, ends: Sequence[Ended]) -> None:
        self._unwritten.update([end.claimed[:2] for end in ends])
        self._ends.update([(end.claimed[:2], end) for end in ends])

    def is_empty(self) -> bool:
        """Tell if no run was given up, and no end of its own waits for what is told of it."""
        return not (self._ends or self._kept)

    def fences(self) -> frozenset[tuple[int, ...]]:
        """Id and version of each claim."""
        return frozenset(self._ends)

    def has_call(self, item: Item) -> bool:
        """Tell if the call of an item was given up."""
        return bool(self._ends) and is_given_up(item, self._ends.keys())

    def is_leaving(self, item: Item) -> bool:
        """Tell if its call was given up, or is just being given up."""
        return self.has_call(item) or is_given_up(item, self._awaited)

    def never_called(self, items: Sequence[Item]) -> list[Claimed]:
        """The claims of these items that wait behind a call that was given up."""
        stuck = [claimed for item in items if self.has_call(item) for claimed in item]
        return [claimed for claimed in stuck if claimed[:2] not in self._ends]

    def as_told(self, ended: list[Ended]) -> list[Ended]:
        """Ends that have come, each as it was told already; its own where that is written.

        For the poller's thread. Race: it is just being given up, and a backoff of the project's
        takes its time. Then its own end waits for what is told.
        """
        if not (self._ends or self._awaited or self._kept):
            return ended
        come, self._kept = [*self._kept, *ended], []
        told: list[Ended] = []
        for end in come:
            is_awaited = end.claimed[:2] in self._awaited and end.claimed[:2] not in self._ends
            (self._kept if is_awaited else told).append(end)
        return [self._as_told(end) for end in told]

    def take(self, moment: datetime) -> list[Ended]:
        """Take the ends that are to be written. They still run, to the end of the process: nothing
        starts in their place before ``moment`` (aware UTC), when that will have ended.
        """
        ends = list(self._ends.items())
        return [end._replace(not_before=moment) for fence, end in ends if self._take(fence)]

    def _as_told(self, end: Ended) -> Ended:
        fence = end.claimed[:2]
        told = self._ends.get(fence)
        if told is None:
            return end
        is_mine = self._take(fence)
        if isinstance(end.outcome, Settled):
            return end
        # Another thread is about to write the end that was told. This one would come in its way.
        return told if is_mine else told._replace(outcome=settled(told.outcome))

    def _take(self, fence: tuple[int, ...]) -> bool:
        try:
            self._unwritten.remove(fence)
        except KeyError:
            return False
        return True
