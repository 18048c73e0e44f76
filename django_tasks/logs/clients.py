"""Sentences about what callers do."""

import logging

from django_tasks.logs.lines import say


def no_handler_here(biz_code: str, near: str | None) -> None:
    """Tell of an add; ``near`` is the code of a handler that may have been meant."""
    text = (
        "A task of code %(biz_code)r was added, and no handler of this project has that code: it"
        " waits until a worker has one (setting STRICT_CODES)%(question)s"
    )
    words = {"question": f". Did you mean {near!r}?" if near else ""}
    say("no_handler_here", logging.WARNING, text, words, biz_code=biz_code, near=near)
