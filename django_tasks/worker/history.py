"""The line of a run whose start is not known any more."""

from datetime import datetime

from django_tasks.handlers.registry import note_of, terms_for
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Outcome
from django_tasks.values.runs import Line, keeps, line_of


def line_since_claim(
    claimed: Claimed, outcome: Outcome, ended: datetime, *, worker: str, missed: str = ""
) -> Line | None:
    """The line with the time of the claim as its start; None if the history keeps none."""
    if not keeps(terms_for(claimed.biz_code).kept, outcome, missed):
        return None
    start, note = claimed.claim_time, note_of(claimed.biz_code, claimed.biz_ext)
    return line_of(claimed, outcome, start, ended, worker=worker, missed=missed, note=note)
