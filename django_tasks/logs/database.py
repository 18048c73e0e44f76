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
        logging.ERROR,
        "Database %s %s (%s)%s%s; trying again until it is back",
        using,
        _DOWN[reason],
        InShort(error),
        f", for {seconds:.0f} s now" if seconds else "",
        f"; {quantity(kept, 'end is', 'ends are')} kept" if kept else "",
    )


def database_back(using: str, seconds: float) -> None:
    say(logging.WARNING, "Database %s is back after %.1f s", using, seconds)


def unfit_database(sentence: str) -> None:
    """Tell in a ``sentence`` of ``requirements`` what will not go well."""
    say(logging.WARNING, "%s", sentence)


def ends_refused(using: str, count: int, error: BaseException) -> None:
    """The ends are kept, and tried again."""
    say(
        logging.ERROR,
        "%s on %s cannot be written (%s); what else is due goes on",
        quantity(count, "end", "ends"),
        using,
        InShort(error),
    )


def lines_not_written(using: str, error: BaseException) -> None:
    text = "Lines of the history on %s could not be written (%s)"
    say(logging.ERROR, text, using, InShort(error))
