"""Claims from lanes: an error is that of one lane if it can be."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from django_tasks import logs
from django_tasks.handlers.registry import terms_for
from django_tasks.host.clocks import ticks
from django_tasks.store import claim as store
from django_tasks.store.claim import Claimer, Wanted
from django_tasks.store.connection import drop_connection
from django_tasks.store.errors import Kind, kind_of, was_cut_off
from django_tasks.store.lanes import Lane
from django_tasks.values.claimed import Claimed
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.gates import Gates
from django_tasks.worker.marks import Marks, key_of
from django_tasks.worker.suspects import Suspects

# How long a lane is left alone whose claim has failed with an error of its own, in seconds; doubled
# each time.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


class Trouble(NamedTuple):
    """The next try of a lane, by the host's clock, and the pause that ends then, in seconds."""

    until: float
    pause: float


class Troubled:
    """Lanes whose claims fail for a reason of their own. Used by the poller thread alone."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._known: dict[tuple[str, int, str], Trouble] = {}

    def is_open(self, lane: Lane) -> bool:
        """Tell if it is time to claim from ``lane``."""
        return not self._known or ticks() >= self._known.get(lane[:3], _NO_TROUBLE).until

    def closed_for(self, lane: Lane) -> float:
        """Seconds until it is time to claim from ``lane``."""
        return max(0.0, self._known.get(lane[:3], _NO_TROUBLE).until - ticks())

    def note(self, lane: Lane, error: Exception) -> None:
        """Leave ``lane`` alone for a while."""
        known = self._known.get(lane[:3], _NO_TROUBLE)
        pause = min(LONGEST_PAUSE, 2 * known.pause)
        self._known[lane[:3]] = Trouble(ticks() + pause, pause)
        logs.lane_failed(self._using, lane.biz_code, lane.queue, error, pause)

    def forget(self, lane: Lane) -> None:
        """The lane is well again."""
        if self._known:
            self._known.pop(lane[:3], None)


class Portions:
    """The size of a claim, lane by lane. Used by the poller thread alone.

    Less where the server cuts the claim off, which takes longer than its bound: repeated at the
    same size it would never end. Of each lane by itself, or the claims of another one that go well
    would have this one's grow again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[tuple[str, int, str], int] = {}

    def of(self, lane: Lane) -> int:
        """The number of tasks of ``lane`` that may be claimed at once."""
        return self._known.get(lane[:3], self._most)

    def halve(self, lane: Lane, tried: int) -> None:
        """A claim of ``tried`` tasks was cut off."""
        self._known[lane[:3]] = max(1, tried // 2)

    def grow(self, lane: Lane) -> None:
        """A claim has brought something."""
        if self._known and (portion := 2 * self._known.pop(lane[:3], self._most)) < self._most:
            self._known[lane[:3]] = portion


_NO_TROUBLE = Trouble(float("-inf"), FIRST_PAUSE / 2)


class LaneClaims:
    """Used by the poller thread alone."""

    def __init__(
        self,
        config: WorkerConfig,
        gates: Gates,
        suspects: Suspects,
        marks: Marks,
        unsure: Callable[[], None],
    ) -> None:
        """``unsure`` is called when a claim may have been stored although it has failed."""
        self._config = config
        self._gates = gates
        self._suspects = suspects
        self._marks = marks
        self._unsure = unsure
        self._troubled = Troubled(config.using)
        # Of the suspects of a lane: those that cannot be claimed must not close it for the others.
        self._troubled_suspects = Troubled(config.using)
        self._portions = Portions(config.batch_size)

    def is_open(self, lane: Lane) -> bool:
        """Tell if it is worth while to claim from ``lane``."""
        return self._gates.is_open(lane) and self._troubled.is_open(lane)

    def closed_for(self, lane: Lane) -> float:
        """Seconds until it is; 0 or less: it is now."""
        return max(self._gates.closed_for(lane), self._troubled.closed_for(lane))

    def portion(self, lane: Lane, room: int) -> int:
        """The number of tasks to claim at once where there is ``room``."""
        return min(room, self._portions.of(lane))

    def claim(
        self, claimer: Claimer, lane: Lane, now: datetime, most: int, *, careful: bool
    ) -> list[Claimed]:
        """Claim up to ``most`` tasks of ``lane``; none if that fails for a reason of its own.

        Raises the errors of the database that are not this lane's own.
        """
        claim = partial(self._claim_portion, claimer, lane, now, most, careful)
        return self._claim_unless_troubled(self._troubled, lane, claim)

    def claim_together(
        self, claimer: Claimer, portions: Sequence[tuple[Lane, int]], now: datetime, limit: int
    ) -> list[list[Claimed]]:
        """Claim portions of lanes without a limit of their own, ``limit`` tasks in all.

        Returns the claims of each, of the first ones alone where ``limit`` was reached; of none
        after an error that may be one lane's own. Raises other errors of the database.
        """
        wanted = [Wanted(lane, most, self._marks.of(key_of(lane), now)) for lane, most in portions]
        try:
            claims = store.claim_together(claimer, wanted, now, limit, using=self._config.using)
        except Exception as error:
            if not self._survives(error):
                raise
            return []
        for (lane, _), some in zip(portions, claims, strict=False):
            self._troubled.forget(lane)
            if some:
                self._portions.grow(lane)
        return claims

    def claim_suspect(self, claimer: Claimer, now: datetime) -> list[Claimed]:
        """Claim a row that was rescued twice, if some were seen and none is in hand."""
        lane, troubled = self._suspects.take_lane(), self._troubled_suspects
        if lane is None or not troubled.is_open(lane):
            return []
        claim = partial(self._suspects.claim, claimer, lane, now)
        return self._claim_unless_troubled(troubled, lane, claim)

    def _claim_unless_troubled(
        self, troubled: Troubled, lane: Lane, claim: Callable[[], list[Claimed]]
    ) -> list[Claimed]:
        """Claim from one lane; an error that is this lane's own must not stop the others."""
        try:
            claims = claim()
        except Exception as error:
            if not self._survives(error):
                raise
            troubled.note(lane, error)
            return []
        troubled.forget(lane)
        return claims

    def _survives(self, error: Exception) -> bool:
        """Tell if an error may be of one lane alone, and be ready for what it has left.

        Race: the claim was committed before the error came, with its answer or over it. Then its
        rows are strays.
        """
        kind = kind_of(error, using=self._config.using)
        if kind.is_of_all:
            return False
        self._unsure()
        if kind is Kind.UNKNOWN:
            # Perhaps this session's own fault, such as a plan that it keeps and a migration has
            # made wrong. A ping would find nothing.
            drop_connection(self._config.using)
        return True

    def _claim_portion(
        self, claimer: Claimer, lane: Lane, now: datetime, most: int, careful: bool
    ) -> list[Claimed]:
        try:
            claims = self._claim_lane(claimer, lane, now, most, careful)
        except Exception as error:
            if was_cut_off(error, using=self._config.using):
                self._portions.halve(lane, most)
            raise
        if claims:
            self._portions.grow(lane)
        return claims

    def _claim_lane(
        self, claimer: Claimer, lane: Lane, now: datetime, most: int, careful: bool
    ) -> list[Claimed]:
        places = self._marks.of(key_of(lane), now)
        take = partial(store.claim, claimer, lane, now, using=self._config.using, places=places)
        if not self._gates.has_limit(lane):
            return take(most, careful=careful)
        # What waits in our buffer counts as running: no more than we could run ourselves. And
        # carefully: a wait for a row at the gate would hold up everybody.
        most = min(most, self._config.threads * terms_for(lane.biz_code).batch)
        return self._gates.claim(lane, now, lambda free: take(min(free, most), careful=True))
