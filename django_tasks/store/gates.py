"""Limits of a code in the whole cluster: its claims pass a gate, one claimer at a time.

How many run is counted from the rows themselves, so an end, a give-back and a rescue never touch
the gate, and a crash leaves nothing to mend: the rows of a dead worker count until it is rescued,
because it might still run them. Rows of a code become owned by a claim only, and each claim of a
limited code is made in the transaction that holds the row of its gate, counts, claims and writes.

Races: two workers pass at once (one has the row, the other steps over it and comes again; nobody
waits); they do so on two nodes of a Galera cluster, where a lock is known to its own node only
(both write the row, so the later commit fails); a worker dies in between (nothing has happened).

The look before the gate costs one plain statement and takes no lock. Most looks find it closed.

Limits that an operator has set stand in the same row. A passage reads them with the row, under its
lock: from the commit that has set them on, no passage lets through by others.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from random import uniform
from typing import NamedTuple

from django.db import DatabaseError, transaction

from django_tasks.host.clocks import EPOCH
from django_tasks.store.dialects import Dialect, dialect_of
from django_tasks.store.transactions import is_contention, retried, write_transaction
from django_tasks.values.claimed import Claimed
from django_tasks.values.limits import NO_LIMIT, Limit, as_limit, in_force
from django_tasks.values.status import OWNED_SQL

# A worker that has the gate needs a few milliseconds.
PASSING_SECONDS = 0.05

# COALESCE keeps planners off the unique key, which begins with the code: it has all that wait, and
# the claim index has those that are owned beside each other.
_RUNNING = (
    f"SELECT COUNT(*) FROM {{task}} WHERE status IN {OWNED_SQL} AND COALESCE(biz_code, '') = %s"
)
_WRITE = "UPDATE {gate} SET passes = passes + 1, full_until = %s WHERE id = %s AND passes = %s"


class Receipt(NamedTuple):
    """The starts of a rate that a passage has taken, the state from which it took them, and the
    limits by which.
    """

    gate_id: int
    passes: int
    full_until: int
    moment: int
    starts: int
    limit: Limit = NO_LIMIT

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


# Limits as an operator sets them: runs at once, and a rate's text.
Limits = tuple[int | None, str | None]


class _State(NamedTuple):
    id: int
    passes: int
    full_until: int
    max_running: int | None
    rate_limit: str | None

    def limit(self, own: Limit | None) -> Limit:
        """The limits that hold now for a code whose handler has its ``own``."""
        return in_force(own, as_limit(self.max_running, self.rate_limit))


def pass_gate(
    biz_code: str,
    own: Limit | None,
    now: datetime,
    take: Callable[[int], list[Claimed]],
    *,
    using: str,
) -> Passage:
    """Have ``take`` claim as many tasks of ``biz_code`` as may start at ``now``.

    ``own`` are the limits of its handler; those that an operator has set hold in their place. With
    none at all any number may. ``take`` is called with that number, inside the transaction, or not
    at all. It must not wait for rows that somebody holds locked: everybody else would wait with it.
    """
    dialect = dialect_of(using)
    moment = (now - EPOCH) // timedelta(microseconds=1)
    try:
        state = _look(dialect, biz_code)
        if state is None:
            add_gate(biz_code, using=using)
        else:
            limit = state.limit(own)
            running = _running(dialect, biz_code, limit)
            opening = limit.opening(running, state.full_until, moment)
            if not opening.starts:
                _settle(dialect, state, limit.settled(state.full_until, moment))
                return Passage([], opening.closed_for)
        with write_transaction(using):
            return _pass(dialect, biz_code, own, moment, take)
    except DatabaseError as error:
        if not is_contention(using, error):
            raise
        return _contested()


def add_gate(biz_code: str, *, using: str) -> bool:
    """Make the row of a gate; False if somebody else was quicker."""
    names = "{gate} (biz_code, passes, full_until)"
    return dialect_of(using).insert_absent(names, [biz_code, 0, 0])


@retried
def set_limits(biz_code: str, limits: Limits, *, using: str) -> bool:
    """Set an operator's limits of a code, or (both None) remove them; tell if that changed any.

    Races: two set at once (each writes both in one statement, so the later ones stand as a whole,
    and of two equal ones one changes nothing); the row is made in between (then it is there for the
    second try); a claim passes (it has the row, and this waits; on Galera one of the two fails).
    """
    dialect = dialect_of(using)
    # No limit is 0 or empty, and NULL is equal to nothing.
    template = (
        "UPDATE {gate} SET max_running = %s, rate_limit = %s WHERE biz_code = %s"
        " AND (COALESCE(max_running, 0) <> %s OR COALESCE(rate_limit, '') <> %s)"
    )
    params = [*limits, biz_code, limits[0] or 0, limits[1] or ""]
    if dialect.execute(template, params) == 1:
        return True
    if limits == (None, None):
        return False
    names = "{gate} (biz_code, passes, full_until, max_running, rate_limit)"
    if dialect.insert_absent(names, [biz_code, 0, 0, *limits]):
        return True
    return dialect.execute(template, params) == 1


def limits(*, using: str) -> dict[str, Limits]:
    """The limits that operators have set, by code.

    The table has one row a code that is or was limited, so this reads few.
    """
    template = (
        "SELECT biz_code, max_running, rate_limit FROM {gate}"
        " WHERE max_running IS NOT NULL OR rate_limit IS NOT NULL ORDER BY biz_code"
    )
    return {code: (most, rate) for code, most, rate in dialect_of(using).fetch(template)}


def has_rate(biz_code: str, own: Limit | None, *, using: str) -> bool:
    """Tell if starts of a code are counted now; ``own`` are the limits of its handler."""
    state = _look(dialect_of(using), biz_code)
    limit = state.limit(own) if state else in_force(own, None)
    return limit.rate is not None


def _pass(
    dialect: Dialect,
    biz_code: str,
    own: Limit | None,
    moment: int,
    take: Callable[[int], list[Claimed]],
) -> Passage:
    state = _look(dialect, biz_code, dialect.lock_free_rows)
    if state is None:
        return _contested()
    # Read with the row: an operator who sets others now has it after us.
    limit = state.limit(own)
    # In a statement of its own: one that locks and counts would count what it saw before it had the
    # lock, without the claims of the worker that had it last.
    running = _running(dialect, biz_code, limit)
    opening = limit.opening(running, state.full_until, moment)
    claims = take(opening.starts) if opening.starts else []
    if not claims:
        return Passage([], opening.closed_for)
    full_until = limit.after(state.full_until, moment, len(claims))
    if dialect.execute(_WRITE, [full_until, state.id, state.passes]) != 1:
        transaction.set_rollback(True, using=dialect.connection.alias)
        return _contested()
    after = limit.opening(running + len(claims), full_until, moment)
    receipt = Receipt(state.id, state.passes + 1, state.full_until, moment, len(claims), limit)
    return Passage(claims, after.closed_for, receipt)


def refund(receipt: Receipt, unused: int, *, using: str) -> Receipt | None:
    """Give back the starts of claims that never started; the receipt of what is left of them.

    Exact: the gate is set to what it would be if only the others had passed, by the same limits.
    None, and nothing is changed, if somebody has passed since. Race: somebody passes now; the guard
    is the number of passes, which each passage raises.
    """
    starts, full_until = receipt.starts - unused, receipt.full_until
    if starts:
        full_until = receipt.limit.after(full_until, receipt.moment, starts)
    params = [full_until, receipt.gate_id, receipt.passes]
    if dialect_of(using).execute(_WRITE, params) != 1:
        return None
    return receipt._replace(passes=receipt.passes + 1, starts=starts)


def _settle(dialect: Dialect, state: _State, full_until: int) -> None:
    """Write that a rate has given out less than it seems. Race: somebody has passed meanwhile."""
    if full_until != state.full_until:
        dialect.execute(_WRITE, [full_until, state.id, state.passes])


def _look(dialect: Dialect, biz_code: str, lock: str = "") -> _State | None:
    columns = "id, passes, full_until, max_running, rate_limit"
    template = f"SELECT {columns} FROM {{gate}} WHERE biz_code = %s{lock}"
    return next((_State(*row) for row in dialect.fetch(template, [biz_code])), None)


def _running(dialect: Dialect, biz_code: str, limit: Limit) -> int:
    if limit.max_running is None:
        return 0
    ((count,),) = dialect.fetch(_RUNNING, [biz_code])
    return int(count)


def _contested() -> Passage:
    return Passage([], uniform(0.5, 1.5) * PASSING_SECONDS)
