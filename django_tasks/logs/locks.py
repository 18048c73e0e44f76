"""Sentences about locks, and about sticky handlers, whose active worker holds one for each."""

import logging

from django_tasks.logs.lines import say


def lock_not_renewed(name: str, error: BaseException, using: str) -> None:
    text = "Lock %(lock)r could not be renewed (%(error)s); trying again until its lease has passed"
    say("lock_not_renewed", logging.WARNING, text, lock=name, database=using, error=error)


def lock_lost(name: str, term: int, using: str) -> None:
    text = "Lock %(lock)r (term %(term)d) was lost while its section ran: somebody else may hold it"
    say("lock_lost", logging.ERROR, text, lock=name, term=term, database=using)


def lock_not_freed(name: str, error: BaseException, using: str) -> None:
    text = "Lock %(lock)r could not be freed (%(error)s); it is free when its lease has passed"
    say("lock_not_freed", logging.WARNING, text, lock=name, database=using, error=error)


def became_active(biz_code: str, term: int, using: str) -> None:
    text = "This worker is now the active one of %(biz_code)s on %(database)s (term %(term)d)"
    say("became_active", logging.INFO, text, biz_code=biz_code, database=using, term=term)


def no_longer_active(biz_code: str, term: int, using: str) -> None:
    text = (
        "This worker is not the active one of %(biz_code)s on %(database)s any more: its term"
        " %(term)d was lost"
    )
    say("no_longer_active", logging.WARNING, text, biz_code=biz_code, database=using, term=term)


def terms_failed(using: str) -> None:
    text = "The terms of sticky handlers on %(database)s met an error; trying again"
    say("terms_failed", logging.ERROR, text, exc_info=True, database=using)


def not_passive(biz_code: str, using: str) -> None:
    text = (
        "The row of %(biz_code)s on %(database)s could not be read for on_passive; trying again at"
        " the next heartbeat"
    )
    say("row_not_read", logging.ERROR, text, exc_info=True, biz_code=biz_code, database=using)
