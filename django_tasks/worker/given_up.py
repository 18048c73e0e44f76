"""Runs that have not ended by their ``kill_after``, and the ends that were told of them.

Their rows stay owned while they run, so that nothing starts beside them. Their ends are written as
the last act of the process, or when the run ends after all.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Outcome, Reschedule, Retry, Settled
from django_tasks.worker.executor import Item, is_given_up


class GivenUp:
    """For all threads: each use of the set and of the dict is one atomic operation."""

    def __init__(self) -> None:
        # Ids and versions of the claims; and their ends, until somebody writes them.
        self._fences: set[tuple[int, ...]] = set()
        self._ends: dict[tuple[int, ...], Ended] = {}

    def add(self, ends: Sequence[Ended]) -> None:
        self._ends.update([(end.claimed[:2], end) for end in ends])
        self._fences.update([end.claimed[:2] for end in ends])

    def fences(self) -> frozenset[tuple[int, ...]]:
        """Id and version of each claim."""
        return frozenset(self._fences)

    def has_call(self, item: Item) -> bool:
        """Tell if the call of an item was given up."""
        return bool(self._fences) and is_given_up(item, self._fences)

    def never_called(self, items: Sequence[Item]) -> list[Claimed]:
        """The claims of these items that wait behind a call that was given up."""
        stuck = [claimed for item in items if self.has_call(item) for claimed in item]
        return [claimed for claimed in stuck if claimed[:2] not in self._fences]

    def as_told(self, ended: list[Ended]) -> list[Ended]:
        """Ends that have come, each as it was told already; its own where that is written."""
        return [self._as_told(end) for end in ended] if self._ends else ended

    def take(self, moment: datetime) -> list[Ended]:
        """Take the ends that are to be written. They still run, to the end of the process: none is
        tried again, or comes again, before ``moment`` (aware UTC), when that will have ended.
        """
        ends = []
        with suppress(KeyError):  # two threads may take from it
            while True:
                _, end = self._ends.popitem()
                ends.append(end._replace(outcome=_not_before(moment, end.outcome)))
        return ends

    def _as_told(self, end: Ended) -> Ended:
        told = self._ends.pop(end.claimed[:2], end)
        return end if isinstance(end.outcome, Settled) else told


def _not_before(moment: datetime, outcome: Outcome) -> Outcome:
    match outcome:
        case Retry(when) if when < moment:
            return replace(outcome, when=moment)
        case Reschedule(when) if when < moment:
            intended = outcome.scheduled_time or when
            return replace(outcome, when=moment, scheduled_time=intended)
    return outcome
