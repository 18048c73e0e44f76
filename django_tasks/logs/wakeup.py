"""Sentences about the hints and doorbells that wake a worker."""

import logging

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort


def hints_lost(using: str, error: BaseException) -> None:
    text = "No hints from %s (%s); polling goes on"
    say(logging.WARNING, text, using, InShort(error))


def hints_back(using: str) -> None:
    say(logging.INFO, "Hints from %s are back", using)


def no_doorbell(host: str, error: BaseException) -> None:
    say(logging.WARNING, "No doorbell at %s (%s); polling goes on", host, InShort(error))
