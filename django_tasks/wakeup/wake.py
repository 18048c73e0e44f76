"""Tell workers that a task was added for about now.

A hint on top of polling and never instead of it: a worker that misses it finds the task at its
next poll. PostgreSQL's hint is part of the adder's transaction. Elsewhere the adder rings after
the commit, at the doorbells in the workers' rows.
"""

from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from functools import partial
from math import inf

from django.db import Error, connections, transaction

from django_tasks.conf import options
from django_tasks.host import forks
from django_tasks.host.clocks import EPOCH, ticks
from django_tasks.store import clock, workers
from django_tasks.store.dialects import dialect_of
from django_tasks.store.workers import Door
from django_tasks.wakeup import doorbell, local, postgres

# How old the list of doorbells may be, and how old an empty one: the first worker is just starting.
# A ring at a worker that has gone wakes nobody.
DOORS_SECONDS = 2.0
NO_DOORS_SECONDS = 0.2

# Tasks are added for now, by transactions that take a while to commit. So searches of workers begin
# at least this long before now, see ``Marks``; what was due before is announced as overdue.
SLACK = timedelta(seconds=0.5)
LONG_AGO = EPOCH

_doors: dict[str, tuple[float, list[Door]]] = {}

# The child of a fork can ring at its parent, which has left itself out of its own list.
forks.in_child(_doors.clear)


def wake_workers(first: datetime, using: str, tasks: int = 1) -> None:
    """Wake workers of this process and of others for ``tasks`` that are due from ``first`` on.

    ``LONG_AGO`` if nobody knows since when. Call it in the transaction that has added them. Tasks
    further in the future cost nothing: all sleepers poll again before they are due.
    """
    connection = connections[using]
    if connection.in_atomic_block or connection.get_autocommit():
        transaction.on_commit(partial(_ring, first, tasks, using), using=using)
    # else a transaction that the caller manages by hand: Django cannot tell when it commits
    _notify(first, tasks, using)


def offer(tasks: int, *, using: str) -> None:
    """Wake workers of other processes for due tasks that were given back. Raises nothing."""
    if not dialect_of(using).notifies:
        doorbell.ring(_known_doors(using), tasks, overdue=True)
        return
    with suppress(Error):
        postgres.notify(to_few=False, overdue=True, using=using)


def _notify(first: datetime, tasks: int, using: str) -> None:
    """Have the database send a hint with the commit, where it sends any.

    Outside a transaction the task is stored already: a hint that fails must not say otherwise.
    """
    dialect = dialect_of(using)
    if not dialect.notifies:
        return
    with nullcontext() if dialect.connection.in_atomic_block else suppress(Error):
        now = clock.now(using)
        if _is_soon(first, now):
            postgres.notify(to_few=tasks == 1, overdue=_is_overdue(first, now), using=using)


def _ring(first: datetime, tasks: int, using: str) -> None:
    """Ring after the commit. Raises nothing."""
    overdue, soon = True, False
    with suppress(Error):
        now = clock.now(using)
        overdue, soon = _is_overdue(first, now), _is_soon(first, now)
    local.ring(using, overdue=overdue)
    if soon and not dialect_of(using).notifies:
        with suppress(Error):
            doorbell.ring(_known_doors(using), tasks, overdue=overdue)


def _is_soon(first: datetime, now: datetime) -> bool:
    return first <= now + timedelta(seconds=options().poll_interval)


def _is_overdue(first: datetime, now: datetime) -> bool:
    return first < now - SLACK


def _known_doors(using: str) -> list[Door]:
    """Read without a lock: at worst two threads ask at once."""
    asked, doors = _doors.get(using, (inf, []))
    tick = ticks()
    if not 0 <= tick - asked < (DOORS_SECONDS if doors else NO_DOORS_SECONDS):
        with suppress(Error):
            doors = [door for door in workers.doors(using=using) if door.can_be_reached()]
        _doors[using] = tick, doors
    return doors
