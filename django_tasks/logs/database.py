"""Sentences about a database: that it is down or back, unfit, or refuses what is written."""

import logging
from typing import Literal

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import quantity

Reason = Literal["silent", "refused", "denied", "forbidden", "unknown", "no file", "empty"]


_DOWN: dict[Reason, str] = {
    "silent": "does not answer",
    "refused": "refuses connections",
    "denied": "refuses the user %(name)s or the password",
    "forbidden": "lets the user %(name)s not do what is needed",
    "unknown": "is not known to its server as %(name)s",
    "no file": "cannot be opened",
    "empty": "has no table %(name)s",
}
# Of these waiting alone is the cure.
_PASSING = ("silent", "refused", "no file")


def database_down(
    using: str, reason: Reason, name: str, error: BaseException, kept: int, seconds: float
) -> None:
    """``name`` is that of the user, the database or the table that the ``reason`` is about.

    ``kept`` ends wait to be written; it has been so for ``seconds``.
    """
    text = "Database %(database)s %(what)s (%(error)s)%(since)s%(ends)s; trying again%(until)s"
    words = {
        "what": _DOWN[reason] % {"name": name},
        "since": f", for {seconds:.0f} s now" if seconds else "",
        "ends": f"; {quantity(kept, 'end is', 'ends are')} kept" if kept else "",
        "until": " until it is back" if reason in _PASSING else "",
    }
    fields = {"reason": reason, "error": error, "kept": kept, "duration": seconds}
    say("database_down", logging.ERROR, text, words, database=using, **fields)


def statement_rejected(using: str, sentence: str, error: BaseException, seconds: float) -> None:
    """Tell in a ``sentence`` of ``rejections`` what is rejected.

    ``seconds`` until the worker ends if it still is; 0: it ends.
    """
    text = "%(sentence)s; nothing more is claimed, and this worker ends%(again)s"
    again = f" if it is rejected again in {seconds:.0f} s" if seconds else ""
    words, fields = {"sentence": sentence, "again": again}, {"database": using, "delay": seconds}
    say("statement_rejected", logging.ERROR, text, words, error=error, **fields)


def database_back(using: str, seconds: float) -> None:
    text = "Database %(database)s is back after %(duration).1f s"
    say("database_back", logging.WARNING, text, database=using, duration=seconds)


def unfit_database(using: str, sentence: str) -> None:
    """Tell in a ``sentence`` of ``requirements`` what will not go well."""
    words = {"sentence": sentence}
    say("database_unfit", logging.WARNING, "%(sentence)s", words, database=using)


def ends_refused(using: str, count: int, error: BaseException) -> None:
    """The ends are kept, and tried again."""
    text = "%(ends)s on %(database)s cannot be written (%(error)s); what else is due goes on"
    words = {"ends": quantity(count, "end", "ends")}
    say("ends_refused", logging.ERROR, text, words, database=using, count=count, error=error)


def counts_not_written(using: str, error: BaseException) -> None:
    text = "The counts of the last minute on %(database)s could not be written (%(error)s)"
    say("counts_refused", logging.WARNING, text, database=using, error=error)


def lines_not_written(using: str, error: BaseException) -> None:
    text = "Lines of the history on %(database)s could not be written (%(error)s)"
    say("history_refused", logging.ERROR, text, database=using, error=error)


def metrics_unreadable(using: str, error: BaseException) -> None:
    """Said once for an outage: Prometheus comes every few seconds."""
    text = (
        "The metrics of %(database)s cannot be read (%(error)s); django_tasks_up is 0 until they"
        " can"
    )
    say("metrics_unreadable", logging.WARNING, text, database=using, error=error)


def metrics_readable(using: str) -> None:
    text = "The metrics of %(database)s can be read again"
    say("metrics_readable", logging.INFO, text, database=using)
