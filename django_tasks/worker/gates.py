"""Codes that are limited in the whole cluster, or run in another worker: when it is worth while to
come for them.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from math import isinf
from typing import NamedTuple

from django_tasks.handlers.registry import terms_for
from django_tasks.store import gates as store
from django_tasks.store.finish import Ended
from django_tasks.store.gates import Limits, Receipt
from django_tasks.store.lanes import Lane
from django_tasks.values.claimed import Claimed
from django_tasks.worker.active import LATE_SECONDS, Active
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.membership import Membership

# Hints that tasks wait may mean that limits have changed: those are read again at most this often.
HINTED_SECONDS = 1.0


class Closed(NamedTuple):
    """The time to come again, by the monotonic clock; perhaps sooner, if a run ends here."""

    until: float
    by_runs: bool


class Gates:
    """Used by the poller thread alone."""

    def __init__(self, config: WorkerConfig, membership: Membership, active: Active) -> None:
        self._config = config
        self._active = active
        self._membership = membership
        # Codes whose limit was reached when we last came.
        self._closed: dict[str, Closed] = {}
        # What the last passage of each code with a rate has taken.
        self._receipts: dict[str, Receipt] = {}
        # Limits that operators have set, when they were read, and when they are to be again.
        self._set: dict[str, Limits] = {}
        self._read_at = float("-inf")
        self._read_next = float("inf")

    def limits_may_differ(self, *, hinted: bool = False) -> None:
        """Read the limits of operators again before a claim, after a mere hint not too often."""
        moment = self._read_at + HINTED_SECONDS if hinted else float("-inf")
        self._read_next = min(self._read_next, moment)

    def read_if_due(self) -> bool:
        """Read the limits that operators have set, if it is time; tell if it was. Database errors
        pass.

        They tell which codes have to pass a gate at all. How many pass is decided there, by what
        the gate says then. Race: the first limit of a code is set now. Until the next heartbeat
        this worker may claim past it.
        """
        now = self._membership.clock.monotonic()
        if now < self._read_next:
            return False
        found = store.limits(using=self._config.using)
        for code, _ in found.items() ^ self._set.items():
            # It was closed by other limits, perhaps for a day.
            self._closed.pop(code, None)
        self._set, self._read_at, self._read_next = found, now, float("inf")
        return True

    def has_limit(self, lane: Lane) -> bool:
        return lane.biz_code in self._set or terms_for(lane.biz_code).limit is not None

    def claim(
        self, lane: Lane, now: datetime, take: Callable[[int], list[Claimed]]
    ) -> list[Claimed]:
        """Have ``take`` claim as many as the limit of this lane's code lets start."""
        own = terms_for(lane.biz_code).limit
        claims, closed_for, receipt = store.pass_gate(
            lane.biz_code, own, now, take, using=self._config.using
        )
        self._closed.pop(lane.biz_code, None)
        if receipt and receipt.limit.rate:
            self._receipts[lane.biz_code] = receipt
        if closed_for:
            by_runs = isinf(closed_for)
            # Runs of other processes end unheard.
            seconds = self._config.poll_interval if by_runs else closed_for
            until = self._membership.clock.monotonic() + seconds
            self._closed[lane.biz_code] = Closed(until, by_runs)
        return claims

    def is_open(self, lane: Lane) -> bool:
        return self._active.admits(lane) and (not self._closed or self.closed_for(lane) <= 0)

    def closed_for(self, lane: Lane) -> float:
        """Seconds until it is worth while to come again; 0 or less: now."""
        if not self._active.may_run(lane):
            return LATE_SECONDS
        closed = self._closed.get(lane.biz_code)
        return closed.until - self._membership.clock.monotonic() if closed else 0.0

    def waits_for_runs(self, lane: Lane) -> bool:
        """Tell if it is closed until a run of the lane's code ends, and not for a time."""
        closed = self._closed.get(lane.biz_code)
        return closed is not None and closed.by_runs

    def note_ends(self, ended: list[Ended]) -> None:
        """Come again for a code of which a run has ended here; its end must have been written."""
        for claimed, *_ in ended if self._closed else ():
            closed = self._closed.get(claimed.biz_code)
            if closed and closed.by_runs:
                del self._closed[claimed.biz_code]

    def note_given_back(self, claims: Iterable[Claimed]) -> None:
        """Return the starts of rates that these claims have taken and not used.

        With "1/d" a day would pass until the next one. Only those of the last passage of a code.
        """
        unused: Counter[str] = Counter()
        for claimed in claims if self._receipts else ():
            receipt = self._receipts.get(claimed.biz_code)
            unused[claimed.biz_code] += receipt is not None and receipt.is_for(claimed)
        for code, count in unused.items():
            if count:
                self._refund(code, count)

    def _refund(self, code: str, unused: int) -> None:
        left = store.refund(self._receipts.pop(code), unused, using=self._config.using)
        if left is not None:
            self._closed.pop(code, None)
            if left.starts:
                self._receipts[code] = left
