"""Everything a worker holds: its claims, and the ends that are not written yet.

Ends are kept, in memory, through any outage of the database, and written when it is back: the
fence decides then whether they still count.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from django.db import DataError, IntegrityError, InterfaceError, OperationalError

from django_tasks import logs, signals
from django_tasks.claimed import Claimed
from django_tasks.outcomes import (
    Again,
    Done,
    Fail,
    GiveBack,
    Lost,
    Outcome,
    Reschedule,
    Retry,
    Settled,
    Unsettled,
)
from django_tasks.store import hints
from django_tasks.store.batches import batches
from django_tasks.store.finish import Ended, finish
from django_tasks.store.transactions import is_contention
from django_tasks.worker.config import WorkerConfig

# What a database or its driver raises for a value that it cannot take.
UNWRITABLE = (DataError, IntegrityError, OverflowError, TypeError, ValueError)

# Ends of atomic runs, which are in the database already.
WRITTEN = (Settled, Lost)

_COUNTED = {
    Settled: "done",
    Retry: "retried",
    Again: "retried",
    Unsettled: "retried",
    Fail: "failed",
    GiveBack: "given back",
    Lost: "lost",
}


class Finisher:
    """Used by the poller thread alone."""

    def __init__(self, config: WorkerConfig) -> None:
        self._using = config.using
        self._batch_size = config.batch_size
        self._held: dict[tuple[int, int], Claimed] = {}
        self._ends: list[Ended] = []
        self._doubtful: set[Claimed] = set()
        self._one_by_one = 0
        self._offers = 0
        self.counters: Counter[str] = Counter()

    def hold(self, claims: Iterable[Claimed]) -> None:
        """Remember claims until their ends are written."""
        self._held.update(((claimed.worker_id, claimed.id), claimed) for claimed in claims)

    def add(self, ends: Iterable[Ended]) -> None:
        """Take over ends; those that wrote themselves only count."""
        for end in ends:
            if type(end.outcome) in WRITTEN:
                self._drop(end, lost=isinstance(end.outcome, Lost))
            else:
                self._ends.append(end)

    def give_back(self, claims: Iterable[Claimed]) -> None:
        """Have claims that were never started written back as they were, and offered to others."""
        unstarted = [Ended(claimed, GiveBack()) for claimed in claims]
        self._ends += unstarted
        self._offers += len(unstarted)

    def write(self, now: datetime, *, careful: bool) -> bool:
        """Write all ends; True if some were stepped over because their rows are locked.

        Database errors pass; what was not written is kept.
        """
        while batch := self._batch():
            try:
                result = finish(batch, now, using=self._using, careful=careful)
            except (OperationalError, InterfaceError) as error:
                # Perhaps written all the same: then the next try finds nothing, and nobody is told.
                if not is_contention(self._using, error):
                    self._doubtful.update(claimed for claimed, _ in batch)
                raise
            except UNWRITABLE as error:
                self._isolate(batch, error)
                continue
            del self._ends[: len(batch)]
            self._ends += [end for end in batch if end.claimed.id in result.locked]
            for end in batch:
                if end.claimed.id not in result.locked:
                    self._drop(end, lost=end.claimed.id in result.lost)
            if result.locked:
                return True
        if self._offers:
            offers, self._offers = self._offers, 0
            hints.offer(offers, using=self._using)
        return False

    def is_empty(self) -> bool:
        """Whether every end is written."""
        return not self._ends

    def unwritten(self) -> int:
        return len(self._ends)

    def held_ids(self, worker_id: int) -> set[int]:
        """Ids of the rows claimed under ``worker_id`` whose ends are not written."""
        return {row for owner, row in self._held if owner == worker_id}

    def _batch(self) -> list[Ended]:
        most = 1 if self._one_by_one > 0 else self._batch_size
        return next(batches(self._ends, most, _text), [])

    def _isolate(self, batch: list[Ended], error: Exception) -> None:
        """One end that no database takes must not hold up the others.

        The batch is repeated one by one; the culprit is written as FAILED, and if even that fails
        it is left to be found as a stray.
        """
        if len(batch) > 1:
            self._one_by_one = len(batch)
            return
        (end,) = batch
        self._one_by_one -= 1
        logs.end_not_written(end.claimed, error)
        failed = Fail(f"The end of this run could not be written: {type(error).__name__}")
        if end.outcome == failed:
            self._ends.pop(0)
            self._drop(end, lost=True)
        else:
            self._ends[0] = Ended(end.claimed, failed)

    def runs(self) -> int:
        """How many runs have ended, well or not; what was given back did not run."""
        return self.counters.total() - self.counters["given back"]

    def _drop(self, end: Ended, *, lost: bool) -> None:
        if self._one_by_one > 0:
            self._one_by_one -= 1
        claimed, outcome = end
        key = (claimed.worker_id, claimed.id)
        held = self._held.get(key)
        # An atomic run writes its own end: the task may have been claimed anew before we hear.
        if held is not None and held.version == claimed.version:
            del self._held[key]
        is_news = lost and not isinstance(outcome, Unsettled | GiveBack)
        if is_news and claimed not in self._doubtful:
            self.counters["lost"] += 1
            signals.tell(signals.task_lost, None, task=claimed, using=self._using)
        else:
            self.counters[_counted_as(outcome)] += 1
        if self._doubtful:
            self._doubtful.discard(claimed)


def _counted_as(outcome: Outcome) -> str:
    if isinstance(outcome, Done | Reschedule):
        return outcome.counts_as
    return _COUNTED[type(outcome)]


def _text(end: Ended) -> str | None:
    """The part of an end that can be long."""
    match end.outcome:
        case Reschedule(biz_ext=text) | Retry(error=text) | Fail(error=text):
            return text
    return None
