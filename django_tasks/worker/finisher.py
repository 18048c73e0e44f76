"""Everything a worker holds: its claims, and the ends that are not written yet.

Ends are kept, in memory, through any outage of the database, and written when it is back: the
fence decides then whether they still count.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db import DataError, IntegrityError, InterfaceError, OperationalError

from django_tasks import logs, signals
from django_tasks.claimed import Claimed
from django_tasks.handlers import history_of
from django_tasks.history import Line, keeps, line_of
from django_tasks.outcomes import (
    LOST,
    Again,
    Done,
    Fail,
    GiveBack,
    Lost,
    Outcome,
    Reschedule,
    Settled,
    Unsettled,
)
from django_tasks.registry import handler_for
from django_tasks.store import hints, history
from django_tasks.store.batches import batches
from django_tasks.store.finish import Ended, finish
from django_tasks.store.transactions import is_contention
from django_tasks.worker.config import WorkerConfig

# What a database or its driver raises for a value that it cannot take; and what we raise when a
# count is not what it must be. The same batch would meet the same again, for ever.
UNWRITABLE = (DataError, IntegrityError, OverflowError, TypeError, ValueError, AssertionError)

# Ends of atomic runs, which are in the database already.
WRITTEN = (Settled, Lost)


class Finisher:
    """Used by the poller thread alone."""

    def __init__(self, config: WorkerConfig, worker: str = "") -> None:
        """``worker`` is the name of this worker, for the history."""
        self._worker = worker
        self._using = config.using
        self._batch_size = config.batch_size
        # By id and version, the first two fields: no two claims have the same.
        self._held: dict[tuple[int, ...], Claimed] = {}
        self._ends: list[Ended] = []
        self._doubtful: set[Claimed] = set()
        self._lost: list[Ended] = []
        self._one_by_one = 0
        self._offers = 0
        self.counters: Counter[str] = Counter()

    def hold(self, claims: Iterable[Claimed]) -> None:
        """Remember claims until their ends are written."""
        self._held.update((claimed[:2], claimed) for claimed in claims)

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
                    self._doubtful.update(end.claimed for end in batch)
                raise
            except UNWRITABLE as error:
                self._isolate(batch, error)
                continue
            del self._ends[: len(batch)]
            self._one_by_one = max(0, self._one_by_one - len(batch))
            for end in batch:
                if end.claimed.id in result.locked:
                    self._ends.append(end)
                else:
                    self._drop(end, lost=end.claimed.id in result.lost)
            if result.locked:
                return True
        if self._lost:
            history.record(list(self._lines_of_lost(now)), using=self._using)
            self._lost.clear()
        if self._offers:
            offers, self._offers = self._offers, 0
            hints.offer(offers, using=self._using)
        return False

    def is_empty(self) -> bool:
        """Whether every end is written."""
        return not (self._ends or self._lost)

    def unwritten(self) -> int:
        return len(self._ends)

    def held_ids(self, worker_id: int) -> set[int]:
        """Ids of the rows claimed under ``worker_id`` whose ends are not written."""
        return {held.id for held in self._held.values() if held.worker_id == worker_id}

    def _batch(self) -> list[Ended]:
        """The next ends to write, of each row only one.

        Race: an atomic run's end was written and its answer was lost. Its row may be claimed anew,
        and be given back, before the thread has noticed: then two ends of one row come together.
        """
        most = 1 if self._one_by_one > 0 else self._batch_size
        return _of_different_rows(next(batches(self._ends, most, _texts), []))

    def _isolate(self, batch: list[Ended], error: Exception) -> None:
        """One end that no database takes must not hold up the others.

        The batch is repeated one by one; the culprit is written as FAILED, and if even that fails
        it is left to be found as a stray.
        """
        if len(batch) > 1:
            self._one_by_one = len(batch)
            return
        (end,) = batch
        logs.end_not_written(end.claimed, error)
        failed = Fail(f"The end of this run could not be written: {type(error).__name__}")
        if end.outcome == failed:
            self._ends.pop(0)
            self._one_by_one = max(0, self._one_by_one - 1)
            self._drop(end, lost=True)
        else:
            line = end.line and end.line._replace(outcome=failed.counts_as, error=failed.error)
            self._ends[0] = end._replace(outcome=failed, line=line)

    def runs(self) -> int:
        """How many runs have ended, well or not; what was given back did not run."""
        return self.counters.total() - self.counters["given back"] - self.counters["missed"]

    def _drop(self, end: Ended, *, lost: bool) -> None:
        claimed, outcome, missed, _ = end
        self._held.pop(claimed[:2], None)
        if lost and self._is_news(claimed, outcome):
            self.counters["lost"] += 1
            self._lost.append(end)
            signals.tell(signals.task_lost, None, task=claimed, using=self._using)
        else:
            self.counters[outcome.counts_as] += 1
        if missed:
            self.counters["missed"] += 1
        if self._doubtful:
            self._doubtful.discard(claimed)

    def _is_news(self, claimed: Claimed, outcome: Outcome) -> bool:
        """Whether it is worth a word that this end did not count."""
        return not isinstance(outcome, Unsettled | GiveBack) and claimed not in self._doubtful

    def _lines_of_lost(self, now: datetime) -> Iterator[Line]:
        """Of a run that went well there is no line yet, and its start is as good as its claim."""
        for claimed, _, _, line in self._lost:
            if line is not None:
                yield line._replace(outcome=LOST.counts_as)
            elif keeps(history_of(handler_for(claimed.biz_code)), LOST, ""):
                yield line_of(claimed, LOST, claimed.claim_time, now, worker=self._worker)


def _of_different_rows(ends: list[Ended]) -> list[Ended]:
    """Those before the first whose row has been there already."""
    rows: set[int] = set()
    for place, end in enumerate(ends):
        if end.claimed.id in rows:
            return ends[:place]
        rows.add(end.claimed.id)
    return ends


def _texts(end: Ended) -> Iterator[str | None]:
    """The texts of an end that can be long, and are written."""
    outcome = end.outcome.otherwise if isinstance(end.outcome, Unsettled) else end.outcome
    if isinstance(outcome, Done):  # the row goes
        return
    yield end.claimed.last_error if isinstance(outcome, Again | GiveBack) else outcome.error
    if isinstance(outcome, Reschedule):
        yield outcome.biz_ext
