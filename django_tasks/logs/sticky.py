"""Sentences about sticky handlers, and the worker that is the active one for each."""

import logging

from django_tasks.logs.lines import say


def became_active(biz_code: str, term: int, using: str) -> None:
    text = "This worker is now the active one of %s on %s (term %d)"
    fields = _fields(biz_code, using)
    say("became_active", logging.INFO, text, biz_code, using, term, term=term, **fields)


def no_longer_active(biz_code: str, term: int, using: str) -> None:
    text = "This worker is not the active one of %s on %s any more: its term %d was lost"
    fields = _fields(biz_code, using)
    say("no_longer_active", logging.WARNING, text, biz_code, using, term, term=term, **fields)


def terms_failed(using: str) -> None:
    text = "The terms of sticky handlers on %s met an error; trying again"
    say("terms_failed", logging.ERROR, text, using, exc_info=True, database=using)


def not_passive(biz_code: str, using: str) -> None:
    text = (
        "The row of %s on %s could not be read for on_passive; trying again at the next heartbeat"
    )
    fields = _fields(biz_code, using)
    say("row_not_read", logging.ERROR, text, biz_code, using, exc_info=True, **fields)


def _fields(biz_code: str, using: str) -> dict[str, str]:
    return {"biz_code": biz_code, "database": using}
