"""Sentences about locks."""

import logging

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort


def lock_not_renewed(name: str, error: BaseException) -> None:
    text = "Lock %r could not be renewed (%s); trying again until its lease has passed"
    say(logging.WARNING, text, name, InShort(error))


def lock_lost(name: str, term: int) -> None:
    text = "Lock %r (term %d) was lost while its section ran: somebody else may hold it"
    say(logging.ERROR, text, name, term)


def lock_not_freed(name: str, error: BaseException) -> None:
    text = "Lock %r could not be freed (%s); it is free when its lease has passed"
    say(logging.WARNING, text, name, InShort(error))
