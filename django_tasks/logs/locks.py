"""Sentences about locks."""

import logging

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort


def lock_not_renewed(name: str, error: BaseException, using: str) -> None:
    text = "Lock %(lock)r could not be renewed (%(error)s); trying again until its lease has passed"
    fields = {"lock": name, "database": using, "error": InShort(error)}
    say("lock_not_renewed", logging.WARNING, text, **fields)


def lock_lost(name: str, term: int, using: str) -> None:
    text = "Lock %(lock)r (term %(term)d) was lost while its section ran: somebody else may hold it"
    say("lock_lost", logging.ERROR, text, lock=name, term=term, database=using)


def lock_not_freed(name: str, error: BaseException, using: str) -> None:
    text = "Lock %(lock)r could not be freed (%(error)s); it is free when its lease has passed"
    fields = {"lock": name, "database": using, "error": InShort(error)}
    say("lock_not_freed", logging.WARNING, text, **fields)
