"""Everything a worker holds: its claims, and the ends that are not written yet.

Ends are kept, in memory, through any outage of the database, and written when it is back: the
fence decides then whether they still count.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Literal, NamedTuple

from django_tasks import logs, signals
from django_tasks.handlers.registry import note_of, terms_for
from django_tasks.host.clocks import ticks, utc_now
from django_tasks.store import runs
from django_tasks.store.batches import batches
from django_tasks.store.errors import Kind, kind_of, was_cut_off
from django_tasks.store.finish import Ended, FinishResult, finish
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import (
    DONE,
    LOST,
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
from django_tasks.values.runs import HistoryLine, keeps, line_of
from django_tasks.wakeup import wake
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.counting import Counts
from django_tasks.worker.marks import Marks

# Ends of atomic runs, which are in the database already.
WRITTEN = (Settled, Lost)

# So often the same ends may be refused with an error of no known kind before they are halved, and a
# single one before it is taken for the cause.
PATIENCE = 3
# A packet that is too large ends the connection, as an outage does. Only a batch with more
# characters than this is suspected of it.
LARGE_TEXT = 250_000


# A refusal that lasts is said again: nobody may have read the first line.
SAY_AGAIN_SECONDS = 60.0
# What to do after an error: it is the caller's, or go on with the next batch, or leave the refused
# ends where they are and attend to other things.
Answer = Literal["pass", "go on", "leave"]
UNWRITABLE = "The end of this run could not be written: "


class Strikes(NamedTuple):
    """The refusals of a single end, and the number of ends written at the last one.

    A refusal is a strike only if some end was written since the last strike. So a database that
    refuses every end, however often it comes and goes, gives each of them one strike at most.
    """

    times: int
    written: int


NO_STRIKES = Strikes(0, -1)


class Finisher:
    """Used by the poller thread alone."""

    def __init__(
        self,
        config: WorkerConfig,
        marks: Marks,
        worker: str = "",
        tell: Callable[..., None] = signals.tell,
        counts: Counts | None = None,
    ) -> None:
        """``worker`` is the name of this worker, for the history; ``tell`` sends signals."""
        self._counts = counts or Counts(utc_now)
        self._marks = marks
        self._worker = worker
        self._tell = tell
        self._using = config.using
        self._batch_size = config.batch_size
        # By id and version, the first two fields: no two claims have the same.
        self._held: dict[tuple[int, ...], Claimed] = {}
        self._ends: list[Ended] = []
        self._doubtful: set[Claimed] = set()
        self._lost: list[Ended] = []
        # The most that go into one statement: halved where one of them cannot be written, or where
        # the server cuts it off.
        self._most = config.batch_size
        # Refusals in a row with errors of no known kind, and those of single ends.
        self._streak = 0
        self._strikes: dict[tuple[int, ...], Strikes] = {}
        self._written = 0
        self._said_refused = float("-inf")
        self._offers = 0
        self.counters: Counter[str] = Counter()

    def hold(self, claims: Iterable[Claimed]) -> None:
        """Remember claims until their ends are written."""
        self._held.update((claimed[:2], claimed) for claimed in claims)

    def add(self, ends: Iterable[Ended]) -> None:
        """Take over ends; those that wrote themselves only count."""
        with self._counts:
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
        """Write all ends; True if some were stepped over, because their rows are locked or because
        the database takes none of them.

        Database errors pass; what was not written is kept.
        """
        while batch := self._batch():
            try:
                result = finish(batch, now, using=self._using, careful=careful)
            except Exception as error:
                answer = self._answer(batch, error, now)
                if answer == "pass":
                    raise
                if answer == "leave":
                    return True
                continue
            del self._ends[: len(batch)]
            self._note_success(len(batch))
            self._marks.note_written(batch, result.handed_over)
            self._part_with(batch, result)
            if result.locked:
                return True
        if self._lost:
            self._record_lost(now)
        if self._offers:
            offers, self._offers = self._offers, 0
            wake.offer(offers, using=self._using)
        return False

    def is_empty(self) -> bool:
        """Tell if every end is written."""
        return not (self._ends or self._lost)

    def unwritten(self) -> int:
        return len(self._ends)

    def holds(self, claimed: Claimed) -> bool:
        """Tell if the end of a claim is not written yet."""
        return claimed[:2] in self._held

    def not_ended(self) -> set[tuple[int, ...]]:
        """Id and version of each claim that is held and has no end yet."""
        return self._held.keys() - {end.claimed[:2] for end in self._ends}

    def held(self, fences: Iterable[tuple[int, ...]]) -> list[Claimed]:
        """The claims with these ids and versions."""
        return [self._held[fence] for fence in fences if fence in self._held]

    def held_ids(self, worker_id: int) -> set[int]:
        """Ids of the rows claimed under ``worker_id`` whose ends are not written."""
        return {held.id for held in self._held.values() if held.worker_id == worker_id}

    def _part_with(self, batch: list[Ended], result: FinishResult) -> None:
        left_out = result.locked | result.lost
        with self._counts:
            self._counts.count_done(
                batch if not left_out else [e for e in batch if e.claimed.id not in left_out]
            )
            for end in batch if left_out else self._drop_done(batch):
                if end.claimed.id in result.locked:
                    self._ends.append(end)
                else:
                    self._drop(end, lost=end.claimed.id in result.lost)

    def _batch(self) -> list[Ended]:
        """The next ends to write, of each row only one.

        Race: an atomic run's end was written and its answer was lost. Its row may be claimed again
        and given back before the thread has noticed: then two ends of one row come together.
        """
        return _of_different_rows(next(batches(self._ends, self._most, _texts), []))

    def _answer(self, batch: list[Ended], error: Exception, now: datetime) -> Answer:
        kind = kind_of(error, using=self._using)
        if kind in (Kind.CONTENTION, Kind.REJECTED):
            return "pass"
        if kind is Kind.DATA:
            self._isolate(batch, error, now)
            return "go on"
        # Perhaps written all the same: then the next try finds nothing, and nobody is told.
        self._doubtful.update(end.claimed for end in batch)
        if was_cut_off(error, using=self._using):
            self._halve(batch)
            return "pass"
        if kind is Kind.UNKNOWN or _length(batch) > LARGE_TEXT:
            return self._note_refusal(batch, error, now)
        return "pass"

    def _halve(self, batch: list[Ended]) -> None:
        """Write fewer at once. It is nobody's fault: a single end is only put behind the others."""
        self._most = max(1, len(batch) // 2)
        if len(batch) == 1:
            self._ends.append(self._ends.pop(0))

    def _note_success(self, count: int) -> None:
        self._written += count
        self._most = min(self._batch_size, 2 * self._most)
        if self._most == self._batch_size:
            self._streak = 0

    def _note_refusal(self, batch: list[Ended], error: Exception, now: datetime) -> Answer:
        """Halve a batch that was refused several times with an error of no known kind.

        It may be an outage: halved, the ends cost more statements and nothing else. A single end is
        taken for the cause only where others were written meanwhile: a full disk must not fail ten
        thousand tasks. If there are no others, new claims will show if the database takes anything.
        """
        self._streak += 1
        if self._streak < PATIENCE:
            return "pass"
        if len(batch) > 1:
            self._most = max(1, len(batch) // 2)
            return "pass"
        fence = batch[0].claimed[:2]
        times, written = self._strikes.pop(fence, NO_STRIKES)
        times += self._written > written
        if times >= PATIENCE:
            self._isolate(batch, error, now)
            return "pass"
        self._strikes[fence] = Strikes(times, self._written)
        self._ends.append(self._ends.pop(0))  # the others first
        if any(end.claimed[:2] not in self._strikes for end in self._ends):
            return "pass"
        self._say_refused(error)
        return "leave"

    def _say_refused(self, error: Exception) -> None:
        tick = ticks()
        if tick - self._said_refused >= SAY_AGAIN_SECONDS:
            self._said_refused = tick
            logs.ends_refused(self._using, len(self._ends), error)

    def _isolate(self, batch: list[Ended], error: Exception, now: datetime) -> None:
        """One end that no database takes must not hold up the others.

        The batch is halved until the culprit is alone. It is written without its unusual
        characters, or without its line, or as FAILED, and if even that fails it is left to be found
        as a stray. Each is tried in its turn: an end that was refused is another one afterwards.
        """
        if len(batch) > 1:
            self._most = max(1, len(batch) // 2)
            return
        (end,) = batch
        if (plainer := _in_ascii(end)) != end:
            self._ends[0] = plainer
        elif end.line is not None:
            # A run that went well must not fail for its history.
            logs.lines_not_written(self._using, error)
            self._ends[0] = end._replace(line=None)
        elif isinstance(end.outcome, Fail) and end.outcome.error.startswith(UNWRITABLE):
            logs.end_not_written(end.claimed, error, self._using)
            self._ends.pop(0)
            with self._counts:
                self._drop(end, lost=True)
        else:
            logs.end_not_written(end.claimed, error, self._using)
            self._ends[0] = self._failed(end, Fail(UNWRITABLE + type(error).__name__), now)

    def _failed(self, end: Ended, outcome: Fail, now: datetime) -> Ended:
        worker, missed = self._worker, end.missed
        line = line_since_claim(end.claimed, outcome, now, worker=worker, missed=missed)
        return end._replace(outcome=outcome, line=line)

    def runs(self) -> int:
        """The number of runs that have ended, well or not; a claim given back did not run."""
        return self.counters.total() - self.counters["given back"] - self.counters["missed"]

    def _drop_done(self, batch: list[Ended]) -> list[Ended]:
        """Forget the runs that are simply done, as nearly all are; returns the other ends."""
        if self._strikes or self._doubtful:
            return batch
        others, forget = [], self._held.pop
        for end in batch:
            claimed, outcome, missed, _, late, _, _ = end
            if outcome is DONE and late is not None and not missed:
                forget(claimed[:2], None)
            else:
                others.append(end)
        if done := len(batch) - len(others):
            self.counters[DONE.counts_as] += done
        return others

    def _drop(self, end: Ended, *, lost: bool) -> None:
        claimed, outcome, missed, _, late, took, _ = end
        word = outcome.counts_as
        self._held.pop(claimed[:2], None)
        if self._strikes:
            self._strikes.pop(claimed[:2], None)
        if lost and self._is_news(claimed, outcome):
            self.counters["lost"] += 1
            self._counts.count(claimed.biz_code, LOST, "lost", late, took)
            self._lost.append(end)
            self._tell(signals.task_lost, None, task=claimed, using=self._using)
        else:
            self.counters[word] += 1
            if outcome is not DONE or late is None:  # those have been counted together
                self._counts.count(claimed.biz_code, outcome, word, late, took)
        if missed:
            self.counters["missed"] += 1
        if self._doubtful:
            self._doubtful.discard(claimed)

    def _is_news(self, claimed: Claimed, outcome: Outcome) -> bool:
        """Tell if it is worth a word that this end did not count."""
        return not isinstance(outcome, Unsettled | GiveBack) and claimed not in self._doubtful

    def _record_lost(self, now: datetime) -> None:
        try:
            runs.record(list(self._lines_of_lost(now)), using=self._using)
        except Exception as error:
            if kind_of(error, using=self._using).is_of_all:
                raise
            logs.lines_not_written(self._using, error)
        self._lost.clear()

    def _lines_of_lost(self, now: datetime) -> Iterator[HistoryLine]:
        """Of a run that went well there is no line yet."""
        for claimed, _, _, line, *_ in self._lost:
            if line is not None:
                yield line._replace(outcome=LOST.counts_as)
            elif line := line_since_claim(claimed, LOST, now, worker=self._worker):
                yield line


def _of_different_rows(ends: list[Ended]) -> list[Ended]:
    rows: set[int] = set()
    for place, end in enumerate(ends):
        if end.claimed.id in rows:
            return ends[:place]
        rows.add(end.claimed.id)
    return ends


def _in_ascii(end: Ended) -> Ended:
    outcome, line = end.outcome, end.line
    if isinstance(outcome, Retry | Fail | Reschedule):
        outcome = replace(outcome, error=_escaped(outcome.error))
    if isinstance(outcome, Unsettled) and isinstance(outcome.otherwise, Retry | Fail):
        otherwise = replace(outcome.otherwise, error=_escaped(outcome.otherwise.error))
        outcome = replace(outcome, otherwise=otherwise)
    return end._replace(outcome=outcome, line=line and line._replace(error=_escaped(line.error)))


def _escaped(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _length(batch: Iterable[Ended]) -> int:
    return sum(len(text or "") for end in batch for text in _texts(end))


def _texts(end: Ended) -> tuple[str | None, ...]:
    outcome = end.outcome.otherwise if isinstance(end.outcome, Unsettled) else end.outcome
    if isinstance(outcome, Done):  # the row goes
        return ()
    error = end.claimed.last_error if isinstance(outcome, Again | GiveBack) else outcome.error
    return (error, outcome.biz_ext) if isinstance(outcome, Reschedule) else (error,)


def line_since_claim(
    claimed: Claimed, outcome: Outcome, ended: datetime, *, worker: str, missed: str = ""
) -> HistoryLine | None:
    """The line of a run whose start is not known any more; None if the history keeps none."""
    if not keeps(terms_for(claimed.biz_code).kept, outcome, missed):
        return None
    start, note = claimed.claim_time, note_of(claimed.biz_code, claimed.biz_ext)
    return line_of(claimed, outcome, start, ended, worker=worker, missed=missed, note=note)
