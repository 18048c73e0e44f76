"""Write how runs ended. Fenced: a worker that lost its claim changes nothing.

Races, all of them while the handler ran: the task was added again (its version moved, it is still
ours: *hand it over*, so that what was added runs), cancelled (CANCELLING: it is removed),
paused (PAUSING: whatever we write becomes PAUSED), or we were taken for dead (its owner is
another: *lost*, an event and never a write).
"""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from django_tasks.exceptions import ClaimLost
from django_tasks.sentences import sentence as _
from django_tasks.store import runs
from django_tasks.store.claimed_rows import Owned, owned
from django_tasks.store.dialects import Dialect, dialect_of, flatten, placeholders
from django_tasks.store.ownership import Fence, FreedRow, give_up, hand_over, remove, unchanged
from django_tasks.store.transactions import write_transaction
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import (
    Again,
    Done,
    Fail,
    GiveBack,
    Outcome,
    Reschedule,
    Retry,
    Unsettled,
    runs_of,
)
from django_tasks.values.runs import HistoryLine


class Ended(NamedTuple):
    """A claim and how it ended.

    ``missed`` is what was done about times that had passed; ``line`` is what the history is to
    keep of the run, if anything. ``late`` and ``took`` are the seconds for which it waited after
    its time, and for which it ran; ``late`` is None if nobody has measured it. The run may go on
    until ``not_before``, and its task does not start before that, whatever else is said of it.
    """

    claimed: Claimed
    outcome: Outcome
    missed: str = ""
    line: HistoryLine | None = None
    late: float | None = None
    took: float = 0.0
    not_before: datetime | None = None


class FinishResult(NamedTuple):
    """Ends that a finish did not write as asked, by id.

    ``handed_over`` rows had moved but were still ours; ``lost`` ones belong to somebody else now,
    or to nobody; ``locked`` ones were stepped over.
    """

    handed_over: set[int]
    lost: set[int]
    locked: set[int]


def finish(
    ended: Sequence[Ended], now: datetime, *, using: str, careful: bool = False
) -> FinishResult:
    """Write a batch of ends, of different rows, in one transaction.

    ``careful`` steps over rows that somebody holds locked (a view that added to a running task
    and has not committed), where the plain way would wait and everything else with it.
    """
    if not ended:
        return FinishResult(set(), set(), set())
    with write_transaction(using):
        dialect = dialect_of(using)
        locked: set[int] = set()
        if careful:
            locked = _locked_ids(dialect, [end.claimed.id for end in ended])
            ended = [end for end in ended if end.claimed.id not in locked]
        return _finish(dialect, ended, now)._replace(locked=locked)


def finish_inside(ends: Sequence[Ended], now: datetime, *, using: str) -> set[int]:
    """Write the ends of ``atomic`` runs inside their transaction, guarded by ownership.

    Returns the ids of rows that had been added again, cancelled or moved, and were handed over
    instead: the effects of a run stand either way. Raises ClaimLost, for the caller to roll back,
    when a row is no longer ours: then somebody else runs the task.
    """
    # No savepoint, which is two round trips for each run: an error rolls back the handler, too.
    result = _finish(dialect_of(using), ends, now)
    if result.lost:
        lost = ", ".join(str(end.claimed) for end in ends if end.claimed.id in result.lost)
        raise ClaimLost(_("%(task)s was taken over while it ran", task=lost), result.lost)
    return result.handed_over


def _finish(dialect: Dialect, ended: Sequence[Ended], now: datetime) -> FinishResult:
    """Write ends; must run inside a transaction."""
    done, rows = [], []
    for end in ended:
        if type(end.outcome) is Done:
            done.append(_fence_of(end.claimed))
        else:
            row = _hand_over_of(end.claimed, end.outcome, _moment_of(end, now))
            rows.append(_put_off(row, row.when, row.scheduled_time, end))
    matched = remove(dialect, done) | hand_over(dialect, rows, now)
    missed: list[Ended] = []
    if len(matched) < len(ended):
        missed = [end for end in ended if end.claimed.id not in matched]
    handed_over = hand_over_moved(dialect, missed, now)
    lost = {end.claimed.id for end in missed} - handed_over
    lines = [end.line for end in ended if end.line and end.claimed.id not in lost]
    runs.write(dialect, lines)
    return FinishResult(handed_over, lost, set())


def hand_over_moved(dialect: Dialect, missed: Sequence[Ended], now: datetime) -> set[int]:
    """Give up rows that moved under us but are still ours; returns their ids.

    CANCELLING rows go; the others wait again with the ``when`` and ``biz_ext`` somebody set. Must
    run inside a transaction: the rows are locked first and then written as they were found.
    """
    ends = {end.claimed.id: end for end in missed}

    def changed(row: Owned) -> FreedRow:
        end = ends[row.fence.id]
        kept = unchanged(row.fence, ended=_moment_of(end, now))
        return _put_off(kept, row.when, row.scheduled_time, end)

    return give_up(dialect, owned(dialect, [end.claimed for end in missed]), changed, now)


def _put_off(
    row: FreedRow, when: datetime | None, scheduled_time: datetime | None, end: Ended
) -> FreedRow:
    """Have a row that would be due at ``when`` wait as long as its end says, as the run of then."""
    if end.not_before is None or when is None or when >= end.not_before:
        return row
    return row._replace(when=end.not_before, scheduled_time=scheduled_time or when)


def _moment_of(end: Ended, now: datetime) -> datetime | None:
    """The end of a run that counts: the same as in its line, for the admin compares the two."""
    if not runs_of(end.outcome):
        return None
    return end.line.ended if end.line else now


def _locked_ids(dialect: Dialect, ids: Sequence[int]) -> set[int]:
    template = f"SELECT id FROM {{task}} WHERE id IN ({placeholders(len(ids))})"
    free = dialect.fetch(template + dialect.lock_free_rows, ids)
    return set(flatten(dialect.fetch(template, ids))) - set(flatten(free))


# A claim's ``Fence`` as a plain tuple: a quarter of the time, and one is made for every end.
_fence_of = attrgetter("id", "version", "worker_id")


def _hand_over_of(claimed: Claimed, outcome: Outcome, moment: datetime | None) -> FreedRow:
    fence = Fence._make(_fence_of(claimed))
    attempts, rescues, error = claimed.attempts, claimed.rescues, claimed.last_error
    tries = attempts + 1
    # A run that is tried again is still the run of that time, or still before its next one.
    intended = claimed.planned or claimed.intended_time
    match outcome:
        case Unsettled(otherwise):
            return _hand_over_of(claimed, otherwise, moment)
        case Reschedule(when, biz_ext, scheduled, error):
            path = outcome.exception
            return FreedRow(*fence, False, when, biz_ext, 0, 0, error, scheduled, moment, path)
        case Retry(when, error, is_suspect, path):
            kept = rescues if is_suspect else 0
            return FreedRow(*fence, False, when, None, tries, kept, error, intended, moment, path)
        case Again(when, other):
            scheduled = other or intended
            return FreedRow(*fence, False, when, None, attempts, rescues, error, scheduled)
        case Fail(error, path):
            return FreedRow(*fence, True, None, None, tries, rescues, error, None, moment, path)
        case GiveBack():
            return unchanged(fence, attempts, rescues, error)
    raise TypeError(f"{outcome!r} leaves no row")
