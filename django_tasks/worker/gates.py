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
from django_tasks.store.gates import Receipt
from django_tasks.store.lanes import Lane
from django_tasks.values.claimed import Claimed
from django_tasks.values.limits import Limit
from django_tasks.worker.active import LATE_SECONDS, Active
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.membership import Membership


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

    def has_limit(self, lane: Lane) -> bool:
        return _limit(lane) is not None

    def claim(
        self, lane: Lane, now: datetime, take: Callable[[int], list[Claimed]]
    ) -> list[Claimed]:
        """Have ``take`` claim as many as the limit of this lane's code lets start."""
        limit = _limit(lane)
        if limit is None:
            raise ValueError(f"{lane.biz_code} has no limit")
        claims, closed_for, receipt = store.pass_gate(
            lane.biz_code, limit, now, take, using=self._config.using
        )
        self._closed.pop(lane.biz_code, None)
        if receipt and limit.rate:
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
        receipt, limit = self._receipts.pop(code), _limit_of(code)
        if limit is None:
            return
        left = store.refund(receipt, unused, limit, using=self._config.using)
        if left is not None:
            self._closed.pop(code, None)
            if left.starts:
                self._receipts[code] = left


def _limit(lane: Lane) -> Limit | None:
    return _limit_of(lane.biz_code)


def _limit_of(biz_code: str) -> Limit | None:
    return terms_for(biz_code).limit
