"""Handlers that leave things behind in their thread, and runs that look if they find any.

Only what a worker promises to clear away: see "write-handlers" in the documentation.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from decimal import getcontext
from random import choice, random
from typing import Any

from django.db import connection, transaction
from django.utils import timezone, translation

from tests.faults import journal
from tests.faults.habits import ZONE, on

# Which share of the runs leaves something.
SHARE = float(os.environ.get("FAULTS_UNTIDY", "0.05"))
CLEAN = "clean"
PRECISION = getcontext().prec
DIRTY_PRECISION = PRECISION // 2

_variable: ContextVar[str] = ContextVar("left_by", default=CLEAN)


def look(task: Any, *, is_atomic: bool) -> None:
    """At the start of a run: complain of what another one has left."""
    if on("untidy") and (found := list(_found(is_atomic))):
        text = f"{task} finds what another run has left: {', '.join(found)}"
        journal.write("found", text=text)


def _found(is_atomic: bool) -> Iterator[str]:
    if not is_atomic and connection.in_atomic_block:
        yield "a transaction"
    if connection.connection is not None:  # a new one begins without either
        if connection.needs_rollback:
            yield "a transaction that is to be rolled back"
        if not is_atomic and not connection.autocommit:
            yield "autocommit off"
    if getcontext().prec != PRECISION:
        yield f"a decimal precision of {getcontext().prec}"
    if timezone.get_current_timezone() != timezone.get_default_timezone():
        yield f"the time zone {timezone.get_current_timezone_name()}"
    if translation.get_language() == "de":
        yield "a language"
    if _variable.get() != CLEAN:
        yield "a variable"


def leave(*, is_atomic: bool) -> None:
    """At the end of a run: leave something, now and then.

    In an ``atomic`` run nothing of the database: its transaction is the worker's.
    """
    if on("untidy") and random() < SHARE:
        getcontext().prec = DIRTY_PRECISION
        timezone.activate(ZONE)
        translation.activate("de")
        _variable.set("a run before")
        if not is_atomic:
            _leave_some_transaction()


def _leave_some_transaction() -> None:
    ways = _leave_open, _leave_in_a_generator, _leave_broken, _leave_closed, _leave_uncommitted
    # Where the database is away, there is nothing that could be left.
    with suppress(Exception):
        choice(ways)()


def _leave_open() -> None:
    transaction.atomic().__enter__()


def _leave_in_a_generator() -> None:
    """As where somebody keeps an exception: its frames keep the generator, in a circle."""

    def rows() -> Iterator[int]:
        with transaction.atomic():
            yield 1
            yield 2

    hanging = rows()
    next(hanging)
    try:
        raise LookupError(hanging)
    except LookupError as error:
        kept = error
        kept.__cause__ = LookupError(kept)


def _leave_broken() -> None:
    transaction.atomic().__enter__()
    transaction.set_rollback(True)


def _leave_closed() -> None:
    transaction.atomic().__enter__()
    connection.close()


def _leave_uncommitted() -> None:
    transaction.set_autocommit(False)
