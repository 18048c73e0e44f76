"""Sentences about a database: that it is down or back, unfit, or refuses what is written."""

import logging
from typing import Literal

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort, quantity

Reason = Literal["silent", "refused", "denied", "unknown", "no file", "empty"]


_DOWN: dict[Reason, str] = {
    "silent": "does not answer",
    "refused": "refuses connections",
    "denied": "refuses the user or the password",
    "unknown": "is not known to its server under this name",
    "no file": "cannot be opened",
    "empty": "has no tables of django_tasks",
}


def database_down(
    using: str, reason: Reason, error: BaseException, kept: int, seconds: float
) -> None:
    """``kept`` ends wait to be written; it has been so for ``seconds``."""
    say(
        "database_down",
        logging.ERROR,
        "Database %s %s (%s)%s%s; trying again until it is back",
        using,
        _DOWN[reason],
        InShort(error),
        f", for {seconds:.0f} s now" if seconds else "",
        f"; {quantity(kept, 'end is', 'ends are')} kept" if kept else "",
        database=using,
        reason=reason,
        error=InShort(error),
        kept=kept,
        duration=seconds,
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
