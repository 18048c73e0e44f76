"""Sentences about the hints and doorbells that wake a worker."""

import logging

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort


def hints_lost(using: str, error: BaseException) -> None:
    text = "No hints from %(database)s (%(error)s); polling goes on"
    say("hints_lost", logging.WARNING, text, database=using, error=InShort(error))


def hints_back(using: str) -> None:
    say("hints_back", logging.INFO, "Hints from %(database)s are back", database=using)


def no_doorbell(host: str, error: BaseException) -> None:
    text = "No doorbell at %(host)s (%(error)s); polling goes on"
    say("no_doorbell", logging.WARNING, text, host=host, error=InShort(error))
