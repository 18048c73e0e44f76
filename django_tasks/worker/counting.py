"""The counts of a worker's runs by code and minute, on their way to the database.

The poller counts, and the thread of the heartbeats writes: one statement a minute, and none when
nothing has run. A worker that stops has them written at once, for its process may end with a run
under way. A process that is killed loses the counts of a minute and no more.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import datetime
from threading import Event, Lock
from types import TracebackType

from django.db import Error

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.store import minutes
from django_tasks.store.connection import drop_connection
from django_tasks.store.errors import Kind, kind_of
from django_tasks.store.finish import Ended
from django_tasks.store.minutes import Counted, minute_of
from django_tasks.values.figures import FAILURES, OUTCOMES, Tally
from django_tasks.values.outcomes import DONE, Again, GiveBack, Outcome, Unsettled

WRITE_SECONDS = 60.0
AFTER_ERROR_SECONDS = 10.0
# Between two tries to write what somebody waits for.
HURRY_SECONDS = 0.1
# As many exceptions of one code are told apart in a minute: a program may make up classes.
MOST_EXCEPTIONS = 20
# As many rows are kept through an outage. Then it is the counts that are given up, not the memory.
MOST_KEPT = 20_000
# A worker that stops does not wait longer for its last counts than its heartbeat waits for a lock.
MOST_TRIES = 20

# A minute, a code and an exception; "" for all runs of the code.
Key = tuple[int, str, str]


class Counts:
    """Counted by the poller thread, within ``with counts:``; taken by any thread."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = Lock()
        self._tallies: dict[Key, Tally] = {}
        # By minute and code: to count them in the tallies took 7 ms of 2,000 codes, for each end.
        self._exceptions = Counter[tuple[int, str]]()
        self._minute = 0

    def __enter__(self) -> None:
        """Once for many ends: a lock and a look at the clock for each would cost more than it."""
        self._lock.acquire()
        self._minute = minute_of(self._now())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def count(
        self, code: str, outcome: Outcome, word: str, late: float | None = None, took: float = 0.0
    ) -> None:
        """Count an end under ``word``; ``late`` and ``took`` are seconds, if it was a timed run."""
        if word not in OUTCOMES or type(outcome) in _NO_RUNS or _comes_again(outcome):
            return
        tally = self._tally(code, "")
        if late is None:
            tally.count(word)
        else:
            tally.count_run(word, late, took)
        if outcome.exception and word in FAILURES:
            self._tally(code, self._known(code, outcome.exception)).count(word)

    def count_done(self, ends: Iterable[Ended]) -> None:
        """Count the runs among ``ends`` that are simply done, as nearly all are: all at once.

        To count each by itself took a tenth of the time of a run that does nothing.
        """
        code, late, took = "", list[float](), list[float]()
        by_code: dict[str, tuple[list[float], list[float]]] = {}
        for claimed, outcome, _, _, seconds, duration, _ in ends:
            if outcome is DONE and seconds is not None:
                if claimed.biz_code != code:
                    code = claimed.biz_code
                    late, took = by_code.setdefault(code, ([], []))
                late.append(seconds)
                took.append(duration)
        for name, runs in by_code.items():
            self._tally(name, "").count_runs("done", *runs)

    def count_rescued(self, code: str, word: str) -> None:
        """Count a run that nobody has seen the end of."""
        self._tally(code, "").count(word)

    def take(self) -> list[Counted]:
        """All that was counted since it was taken last."""
        with self._lock:
            tallies, self._tallies = self._tallies, {}
            self._exceptions.clear()
        return [Counted(*key, tally.values) for key, tally in tallies.items()]

    def _tally(self, code: str, exception: str) -> Tally:
        key = (self._minute, code, exception)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally()
        return tally

    def _known(self, code: str, exception: str) -> str:
        if (self._minute, code, exception) in self._tallies:
            return exception
        known = self._exceptions[self._minute, code] = self._exceptions[self._minute, code] + 1
        return exception if known <= MOST_EXCEPTIONS else "other"


# Ends that count for nothing: the task was given back, or put off through no fault of its own.
_NO_RUNS = (Again, GiveBack)


def _comes_again(outcome: Outcome) -> bool:
    return isinstance(outcome, Unsettled) and isinstance(outcome.otherwise, Again)


class Recorder:
    """Writes the counts. Used by the thread of the heartbeats alone, but for ``hurry``."""

    def __init__(self, using: str, take: Callable[[], list[Counted]]) -> None:
        self._using = using
        self._take = take
        self._kept: list[Counted] = []
        self._due = ticks() + WRITE_SECONDS
        self._has_said = False
        self._tries = 0
        # Of those who wait for a write, and how often it was tried for them.
        self._asked: deque[Event] = deque()
        self._hurried = 0

    def hurry(self) -> Event:
        """Have all that is counted by now written at the next look, and not within the minute.

        For any thread. The event is set when it is written, or when that is given up for now.
        """
        written = Event()
        self._asked.append(written)
        return written

    def seconds(self) -> float:
        """Seconds until there may be something to write."""
        return HURRY_SECONDS if self._asked else max(0.0, self._due - ticks())

    def write_if_due(self, worker_id: int) -> None:
        """Write what was counted in the last minute. No error passes: a heartbeat is worth more."""
        if self._asked or ticks() >= self._due:
            self._due = ticks() + WRITE_SECONDS
            self.write(worker_id)

    def write(self, worker_id: int) -> None:
        """Write all that was counted. What the database did not take is kept for the next time.

        Race: the answer of a statement is lost. Then its counts are written twice, which is less
        bad than a minute without any.
        """
        asked = len(self._asked)  # before the counts are taken: who asks later means more
        self._kept += self._take()
        if self._kept:
            self._add(worker_id)
        self._hurried = self._hurried + 1 if asked else 0
        if not self._kept or self._hurried >= MOST_TRIES:
            self._hurried = 0
            for _ in range(asked):
                self._asked.popleft().set()

    def _add(self, worker_id: int) -> None:
        try:
            minutes.add(worker_id, self._kept, using=self._using)
        except Error as error:
            self._due = ticks() + AFTER_ERROR_SECONDS
            if kind_of(error, using=self._using) is Kind.REJECTED:
                raise  # the heartbeat tells of it
            self._keep_after(error)
        else:
            self._kept = []
            self._has_said = False

    def finish(self, worker_id: int) -> bool:
        """Write the last counts; False if it is to be tried again, which ends after a while."""
        self._tries += 1
        self.write(worker_id)
        return not self._kept or self._tries >= MOST_TRIES

    def _keep_after(self, error: Error) -> None:
        kind = kind_of(error, using=self._using)
        if kind is not Kind.CONTENTION:
            drop_connection(self._using)
        if kind not in (Kind.CONTENTION, Kind.WORLD):  # of an outage others tell
            if not self._has_said:
                self._has_said = True
                logs.counts_not_written(self._using, error)
            # It would be refused again: without the names that a program gives its exceptions, or
            # not at all.
            plain = [row for row in self._kept if not row.exception]
            self._kept = plain if len(plain) < len(self._kept) else []
        del self._kept[:-MOST_KEPT]
