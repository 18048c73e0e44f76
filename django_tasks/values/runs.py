"""Lines of the history: the runs that leave one, and its text."""

from datetime import datetime
from typing import Literal, NamedTuple, get_args

from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import DONE, Again, GiveBack, Outcome, Settled, Told

History = Literal["all", "problems", "none"]
KINDS: tuple[str, ...] = get_args(History)

# Ends that are no story: runs that never were or count for nothing, and one that has written its
# own line.
_UNTOLD = (GiveBack, Again, Settled)
_GOOD = ("done", "rescheduled")


class HistoryLine(NamedTuple):
    """One run that has ended; times are aware UTC, and the names are the columns'.

    ``when`` is the time at which it was due, ``scheduled_time`` the one that it was meant for: of
    its schedule, or before a pause or a retry. ``missed`` is what was done about times that had
    passed, as in ``task_missed``; ``worker`` is the worker's name, for its row goes when it stops.
    ``exception`` is the path of the class that was raised, and ``detail`` JSON text that the run
    has left behind.
    """

    biz_code: str
    biz_num: str
    when: datetime
    scheduled_time: datetime | None
    started: datetime
    ended: datetime
    outcome: str
    missed: str
    attempt: int
    worker: str
    error: str
    exception: str = ""
    detail: str | None = None


def keeps(history: str, outcome: Told, missed: str) -> bool:
    """Tell if a run with this outcome is to leave a line."""
    if outcome is DONE and not missed:  # as most of them: quickly
        return history == "all"
    if history == "none" or type(outcome) in _UNTOLD:
        return False
    if outcome.detail is not None:
        return True
    return history == "all" or bool(missed) or outcome.counts_as not in _GOOD


def line_of(
    claimed: Claimed,
    outcome: Outcome,
    started: datetime,
    ended: datetime,
    *,
    worker: str,
    missed: str = "",
    note: str | None = None,
) -> HistoryLine:
    """The line of a run; ``note`` is its detail if its outcome has none."""
    return HistoryLine(
        claimed.biz_code,
        claimed.biz_num,
        claimed.when,
        claimed.intended_time if claimed.schedule else claimed.scheduled_time,
        started,
        ended,
        outcome.counts_as,
        missed,
        claimed.attempt,
        worker,
        outcome.error,
        outcome.exception,
        note if outcome.detail is None else outcome.detail,
    )
