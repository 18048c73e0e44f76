"""Sentences about a database: that it is down or back, unfit, or refuses what is written."""

import logging
from typing import Literal

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort, quantity

Reason = Literal["silent", "refused", "denied", "forbidden", "unknown", "no file", "empty"]


_DOWN: dict[Reason, str] = {
    "silent": "does not answer",
    "refused": "refuses connections",
    "denied": "refuses the user %s or the password",
    "forbidden": "lets the user %s not do what is needed",
    "unknown": "is not known to its server as %s",
    "no file": "cannot be opened",
    "empty": "has no table %s",
}
# Of these waiting alone is the cure.
_PASSING = ("silent", "refused", "no file")


def database_down(
    using: str, reason: Reason, name: str, error: BaseException, kept: int, seconds: float
) -> None:
    """``name`` is that of the user, the database or the table that the ``reason`` is about.

    ``kept`` ends wait to be written; it has been so for ``seconds``.
    """
    words = _DOWN[reason]
    say(
        "database_down",
        logging.ERROR,
        "Database %s %s (%s)%s%s; trying again%s",
        using,
        words % name if "%s" in words else words,
        InShort(error),
        f", for {seconds:.0f} s now" if seconds else "",
        f"; {quantity(kept, 'end is', 'ends are')} kept" if kept else "",
        " until it is back" if reason in _PASSING else "",
        database=using,
        reason=reason,
        error=InShort(error),
        kept=kept,
        duration=seconds,
    )


def statement_rejected(using: str, sentence: str, error: BaseException, seconds: float) -> None:
    """Tell in a ``sentence`` of ``rejections`` what is rejected.

    ``seconds`` until the worker ends if it still is; 0: it ends.
    """
    say(
        "statement_rejected",
        logging.ERROR,
        "%s; nothing more is claimed, and this worker ends%s",
        sentence,
        f" if it is rejected again in {seconds:.0f} s" if seconds else "",
        database=using,
        error=InShort(error),
        delay=seconds,
    )


def database_back(using: str, seconds: float) -> None:
    text = "Database %s is back after %.1f s"
    say("database_back", logging.WARNING, text, using, seconds, database=using, duration=seconds)


def unfit_database(using: str, sentence: str) -> None:
    """Tell in a ``sentence`` of ``requirements`` what will not go well."""
    say("database_unfit", logging.WARNING, "%s", sentence, database=using)


def ends_refused(using: str, count: int, error: BaseException) -> None:
    """The ends are kept, and tried again."""
    say(
        "ends_refused",
        logging.ERROR,
        "%s on %s cannot be written (%s); what else is due goes on",
        quantity(count, "end", "ends"),
        using,
        InShort(error),
        database=using,
        count=count,
        error=InShort(error),
    )


def counts_not_written(using: str, error: BaseException) -> None:
    text = "The counts of the last minute on %s could not be written (%s)"
    reason = InShort(error)
    say("counts_refused", logging.WARNING, text, using, reason, database=using, error=reason)


def lines_not_written(using: str, error: BaseException) -> None:
    text = "Lines of the history on %s could not be written (%s)"
    reason = InShort(error)
    say("history_refused", logging.ERROR, text, using, reason, database=using, error=reason)


def metrics_unreadable(using: str, error: BaseException) -> None:
    """Said once for an outage: Prometheus comes every few seconds."""
    text = "The metrics of %s cannot be read (%s); django_tasks_up is 0 until they can"
    reason = InShort(error)
    say("metrics_unreadable", logging.WARNING, text, using, reason, database=using, error=reason)


def metrics_readable(using: str) -> None:
    text = "The metrics of %s can be read again"
    say("metrics_readable", logging.INFO, text, using, database=using)
