"""The lines that the history keeps of tasks that are cancelled while they wait."""

from datetime import datetime

from django_tasks.handlers.registry import handler_for, terms_for
from django_tasks.store.control import CancelledLine, Gone
from django_tasks.values.calls import told_of_text
from django_tasks.values.runs import HistoryLine
from django_tasks.values.status import RunOutcome


def lines_at(now: datetime, biz_code: str | None = None) -> CancelledLine | None:
    """The lines of tasks, all of ``biz_code`` if it is given, that are cancelled at ``now``.

    A history that is not of all runs keeps none. None: no task has a line, and none is asked for.
    A call of a function tells itself how it is: this process may not have imported the function.
    """
    if biz_code is not None and handler_for(biz_code) and terms_for(biz_code).kept != "all":
        return None

    def line_of(gone: Gone) -> HistoryLine | None:
        told = told_of_text(gone.payload)
        if (told.call.results if told else terms_for(gone.biz_code).kept) != "all":
            return None
        return HistoryLine(
            gone.biz_code,
            gone.biz_num,
            gone.when,
            scheduled_time=None,
            started=now,
            ended=now,
            outcome=str(RunOutcome.CANCELLED.value),
            missed="",
            attempt=gone.attempts,
            worker="",
            error="",
            detail=gone.payload if told else None,
        )

    return line_of
