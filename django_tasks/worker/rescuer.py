"""Free what dead workers hold, one bounded piece a cycle."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from django_tasks import logs, signals
from django_tasks.handlers.recurrence import allowance_of
from django_tasks.handlers.registry import terms_for
from django_tasks.store import rescue as store
from django_tasks.store import workers
from django_tasks.store.connection import drop_connection
from django_tasks.store.errors import Kind, kind_of
from django_tasks.store.rescue import Orphan
from django_tasks.values.outcomes import Died, Fail
from django_tasks.values.runs import HistoryLine, keeps
from django_tasks.worker.counting import Counts
from django_tasks.worker.membership import Membership

# How many dead workers one piece fences, or frees the rows of. Each is a statement or more.
WORKERS_AT_ONCE = 50

DIED = "The worker died while it had this task."


class Rescuer:
    """Used by the poller thread alone."""

    def __init__(
        self,
        membership: Membership,
        using: str,
        tell: Callable[..., None] = signals.tell,
        counts: Counts | None = None,
    ) -> None:
        """``tell`` sends signals."""
        self._counts = counts or Counts(membership.clock.now)
        self._membership = membership
        self._using = using
        self._tell = tell
        self._departures = 0
        self._dead: list[workers.Peer] = []
        self._owners: list[int] = []
        self._is_look_due = False
        # How many owners one piece frees the rows of, and those whose rows the database refuses.
        self._at_once = WORKERS_AT_ONCE
        self._refused: set[int] = set()

    def look(self, *, thorough: bool) -> None:
        """Note whose lease had run out at the last heartbeat. Asks the database nothing.

        Nobody is noted unless this worker may judge others. Rows of workers that others have
        fenced are looked for when one has gone, and when ``thorough``.
        """
        if not self._membership.may_rescue():
            return
        self._dead = self._membership.dead()
        departures = self._membership.view.departures
        somebody_left, self._departures = departures != self._departures, departures
        self._is_look_due = bool(self._dead) or somebody_left or thorough

    def has_more(self) -> bool:
        """Tell if there is another piece to do."""
        return bool(self._dead or self._is_look_due or self._owners)

    def rescue_some(self) -> int:
        """One bounded piece: fence, or look for orphans, or free rows; how many rows were freed.

        Database errors pass; what was not done is done at the next call.
        """
        if self._dead:
            for peer in self._dead[:WORKERS_AT_ONCE]:
                workers.fence(peer, using=self._using)
            del self._dead[:WORKERS_AT_ONCE]
        elif self._is_look_due:
            self._owners = workers.orphaning_owners(using=self._using)
            self._is_look_due = False
            self._at_once = WORKERS_AT_ONCE
        elif self._owners:
            return self._free(self._owners[: self._at_once])
        return 0

    def _free(self, owners: Sequence[int]) -> int:
        try:
            rescued = self._rescued(owners, self._membership.clock.now())
        except Exception as error:
            kind = kind_of(error, using=self._using)
            if kind.is_of_all:
                raise
            self._put_off(owners, error)
            if kind is Kind.UNKNOWN:
                drop_connection(self._using)  # perhaps this session's own fault
            return 0
        if not rescued.freed:
            del self._owners[: len(owners)]
        for row in rescued.failed:
            self._tell(
                signals.task_failed,
                None,
                task=row,
                exception=None,
                error=str(store.DIED_ALONE),
                using=self._using,
            )
        self._count(rescued)
        self._tell_of(rescued.freed)
        return len(rescued.freed)

    def _count(self, rescued: store.Rescued) -> None:
        failed = {row.id for row in rescued.failed}
        with self._counts:
            for row in rescued.freed:
                self._counts.count_rescued(
                    row.biz_code, "failed" if row.id in failed else "rescued"
                )

    def _put_off(self, owners: Sequence[int], error: Exception) -> None:
        """Rows that the database refuses must not be tried for ever before all others.

        The owners are taken one by one until the next look; the one whose rows they are is left out
        until then, and named in the log once.
        """
        if len(owners) > 1:
            self._at_once = 1
            return
        (owner,) = owners
        self._owners.remove(owner)
        if owner not in self._refused:
            self._refused.add(owner)
            logs.not_rescued(self._using, owner, error)

    def _rescued(self, owners: Sequence[int], now: datetime) -> store.Rescued:
        try:
            return store.rescue(owners, _attempts_allowed, now, _line_at(now), using=self._using)
        except Exception as error:
            if kind_of(error, using=self._using).is_of_all:
                raise
            rescued = store.rescue(owners, _attempts_allowed, now, using=self._using)
            logs.lines_not_written(self._using, error)
            return rescued

    def _tell_of(self, freed: Sequence[Orphan]) -> None:
        for owner, count in Counter(row.owner for row in freed).items():
            tasks = [str(row) for row in freed if row.owner == owner]
            self._tell(
                signals.task_rescued,
                None,
                worker_id=owner,
                count=count,
                tasks=tasks,
                using=self._using,
            )


def give_back_strays(membership: Membership, held: set[int], *, using: str) -> int:
    """Free rows that are ours in the database only; how many."""
    now = membership.clock.now()
    return store.give_back_strays(membership.worker_id, held, now, using=using)


def _line_at(now: datetime) -> store.LineOf:
    """The history of runs that nobody saw the end of. Their worker's name went with its row."""

    def line_of(row: Orphan, has_failed: bool) -> HistoryLine | None:
        outcome = Fail(str(store.DIED_ALONE)) if has_failed else Died(DIED)
        if not keeps(terms_for(row.biz_code).kept, outcome, ""):
            return None
        return HistoryLine(
            row.biz_code,
            row.biz_num,
            row.when,
            scheduled_time=None,
            started=row.claim_time,
            ended=now,
            outcome=outcome.counts_as,
            missed="",
            attempt=1 + row.attempts + row.rescues,
            worker=f"#{row.owner}",
            error=outcome.error,
        )

    return line_of


def _attempts_allowed(row: Orphan) -> int:
    return allowance_of(row).max_attempts
