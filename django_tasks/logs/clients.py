"""Sentences about what callers do."""

import logging

from django_tasks.logs.lines import say


def no_handler_here(biz_code: str) -> None:
    text = (
        "A task of code %r was added, and no handler of this project has that code: it waits until "
        "a worker has one (setting STRICT_CODES)"
    )
    say("no_handler_here", logging.WARNING, text, biz_code, biz_code=biz_code)
