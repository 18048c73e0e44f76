"""Handlers and the ends of their runs in one transaction on the tasks' database."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from django.db import connections, transaction

from django_tasks import logs
from django_tasks.exceptions import TaskException
from django_tasks.sentences import sentence as _
from django_tasks.store.answers import answered
from django_tasks.store.claimed_rows import await_claim
from django_tasks.store.connection import close_blocks, open_blocks
from django_tasks.store.errors import is_refusal
from django_tasks.store.transactions import BlockEnded, write_transaction
from django_tasks.worker.run import Run

T = TypeVar("T")


class NotBegun(Exception):
    """The transaction of an ``atomic`` run could not begin; its handler was not called."""


class Unanswered(Exception):
    """The database refused the ends of ``atomic`` runs, or did not answer: a deadlock, a failed
    certification, a broken connection. The handler has done nothing wrong.
    """


def atomically(
    runs: Sequence[Run], perform: Callable[[], T], write: Callable[[T], None], *, using: str
) -> T:
    """Call ``perform``, and ``write`` with what it returns, in one transaction.

    Race: a row is taken over, moved or cancelled meanwhile. ``write`` is guarded by ownership, and
    its ClaimLost rolls the handler's effects back.
    """
    result: list[T] = []
    steps: list[str] = []
    try:
        # One transaction has claimed all of them: the last is seen where the others are.
        await_claim(runs[-1].claimed, using=using)
        with ExitStack() as ours, write_transaction(using):
            steps.append("begun")

            def committed() -> None:
                steps.append("committed")
                ours.close()

            # The first hook of the commit: if a later one raises, the ends are written already.
            transaction.on_commit(committed, using=using)
            blocks = open_blocks(using)
            try:
                done = perform()
            finally:  # what comes now, up to the commit, has an answer in time
                ours.enter_context(answered(connections[using]))
            if close_blocks(blocks, using=using):
                raise TaskException(_("It has left an atomic() block open: nothing was committed."))
            result.append(done)
            write(done)
    except BaseException as error:
        if result and "committed" in steps:
            logs.commit_hook_failed(runs[0].task)
            return result[0]
        refused = isinstance(error, Exception) and is_refusal(error, using=using)
        # A pool of connections, or a socket, may let through what is no error of the database.
        if not steps and (refused or isinstance(error, OSError)):
            raise NotBegun from error
        if isinstance(error, BlockEnded) or (result and refused):
            raise Unanswered from error
        raise
    return result[0]
