"""Sentences about the hints and doorbells that wake a worker."""

import logging

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort


def hints_lost(using: str, error: BaseException) -> None:
    text = "No hints from %s (%s); polling goes on"
    reason = InShort(error)
    say("hints_lost", logging.WARNING, text, using, reason, database=using, error=reason)


def hints_back(using: str) -> None:
    say("hints_back", logging.INFO, "Hints from %s are back", using, database=using)


def no_doorbell(host: str, error: BaseException) -> None:
    text, reason = "No doorbell at %s (%s); polling goes on", InShort(error)
    say("no_doorbell", logging.WARNING, text, host, reason, host=host, error=reason)
