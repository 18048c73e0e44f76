"""Limits of a code in the whole cluster: its claims pass a gate, one claimer at a time.

How many run is counted from the rows themselves, so an end, a give-back and a rescue never touch
the gate, and a crash leaves nothing to mend: the rows of a dead worker count until it is rescued,
because it might still run them. Rows of a code become owned by a claim only, and each claim of a
limited code is made in the transaction that holds the row of its gate, counts, claims and writes.

Races: two workers pass at once (one has the row, the other steps over it and comes again; nobody
waits); they do so on two nodes of a Galera cluster, where a lock is known to its own node only
(both write the row, so the later commit fails); a worker dies in between (nothing has happened).

The look before the gate costs one plain statement and takes no lock. Most looks find it closed.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from random import uniform
from typing import NamedTuple

from django.db import DatabaseError, transaction

from django_tasks.host.clocks import EPOCH
from django_tasks.store.dialects import Dialect, dialect_of
from django_tasks.store.statuses import OWNED_SQL
from django_tasks.store.transactions import is_contention, write_transaction
from django_tasks.values.claimed import Claimed
from django_tasks.values.limits import Limit

# A worker that has the gate needs a few milliseconds.
PASSING_SECONDS = 0.05

# COALESCE keeps planners off the unique key, which begins with the code: it has all that wait, and
# the claim index has those that are owned beside each other.
_RUNNING = (
    f"SELECT COUNT(*) FROM {{task}} WHERE status IN {OWNED_SQL} AND COALESCE(biz_code, '') = %s"
)


class Receipt(NamedTuple):
    """The starts of a rate that a passage has taken, and the state from which it took them."""

    gate_id: int
    passes: int
    full_until: int
    moment: int
    starts: int

    def is_for(self, claimed: Claimed) -> bool:
        """Tell if a claim came through with this passage."""
        return (claimed.claim_time - EPOCH) // timedelta(microseconds=1) == self.moment


class Passage(NamedTuple):
    """The claims that came through a gate, and the seconds for which it is closed now.

    0: it is open. Infinite: until a run of the code ends.
    """

    claims: list[Claimed]
    closed_for: float
    receipt: Receipt | None = None


class _State(NamedTuple):
    """The row of a gate."""

    id: int
    passes: int
    full_until: int


def pass_gate(
    biz_code: str,
    limit: Limit,
    now: datetime,
    take: Callable[[int], list[Claimed]],
    *,
    using: str,
) -> Passage:
    """Have ``take`` claim as many tasks of ``biz_code`` as may start at ``now``.

    ``take`` is called with that number, inside the transaction, or not at all. It must not wait
    for rows that somebody holds locked: everybody else would wait with it.
    """
    dialect = dialect_of(using)
    moment = (now - EPOCH) // timedelta(microseconds=1)
    try:
        state = _look(dialect, biz_code)
        if state is None:
            add_gate(biz_code, using=using)
        else:
            running = _running(dialect, biz_code, limit)
            opening = limit.opening(running, state.full_until, moment)
            if not opening.starts:
                return Passage([], opening.closed_for)
        with write_transaction(using):
            return _pass(dialect, biz_code, limit, moment, take)
    except DatabaseError as error:
        if not is_contention(using, error):
            raise
        return _contested()


def add_gate(biz_code: str, *, using: str) -> bool:
    """Make the row of a gate; False if somebody else was quicker."""
    names = "{gate} (biz_code, passes, full_until)"
    return dialect_of(using).insert_absent(names, [biz_code, 0, 0])


def _pass(
    dialect: Dialect,
    biz_code: str,
    limit: Limit,
    moment: int,
    take: Callable[[int], list[Claimed]],
) -> Passage:
    state = _look(dialect, biz_code, dialect.lock_free_rows)
    if state is None:
        return _contested()
    # In a statement of its own: one that locks and counts would count what it saw before it had the
    # lock, without the claims of the worker that had it last.
    running = _running(dialect, biz_code, limit)
    opening = limit.opening(running, state.full_until, moment)
    claims = take(opening.starts) if opening.starts else []
    if not claims:
        return Passage([], opening.closed_for)
    full_until = limit.after(state.full_until, moment, len(claims))
    template = (
        "UPDATE {gate} SET passes = passes + 1, full_until = %s WHERE id = %s AND passes = %s"
    )
    if dialect.execute(template, [full_until, state.id, state.passes]) != 1:
        transaction.set_rollback(True, using=dialect.connection.alias)
        return _contested()
    after = limit.opening(running + len(claims), full_until, moment)
    receipt = Receipt(state.id, state.passes + 1, state.full_until, moment, len(claims))
    return Passage(claims, after.closed_for, receipt)


def refund(receipt: Receipt, unused: int, limit: Limit, *, using: str) -> Receipt | None:
    """Give back the starts of claims that never started; the receipt of what is left of them.

    Exact: the gate is set to what it would be if only the others had passed. None, and nothing is
    changed, if somebody has passed since. Race: somebody passes now; the guard is the number of
    passes, which each passage raises.
    """
    starts, full_until = receipt.starts - unused, receipt.full_until
    if starts:
        full_until = limit.after(full_until, receipt.moment, starts)
    template = (
        "UPDATE {gate} SET passes = passes + 1, full_until = %s WHERE id = %s AND passes = %s"
    )
    params = [full_until, receipt.gate_id, receipt.passes]
    if dialect_of(using).execute(template, params) != 1:
        return None
    return receipt._replace(passes=receipt.passes + 1, starts=starts)


def _look(dialect: Dialect, biz_code: str, lock: str = "") -> _State | None:
    template = f"SELECT id, passes, full_until FROM {{gate}} WHERE biz_code = %s{lock}"
    return next((_State(*row) for row in dialect.fetch(template, [biz_code])), None)


def _running(dialect: Dialect, biz_code: str, limit: Limit) -> int:
    if limit.max_running is None:
        return 0
    ((count,),) = dialect.fetch(_RUNNING, [biz_code])
    return int(count)


def _contested() -> Passage:
    return Passage([], uniform(0.5, 1.5) * PASSING_SECONDS)
