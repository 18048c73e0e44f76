"""Pauses of a whole: a code, a queue, a code in a queue, or everything.

A pause is a row. The statement that claims sees it, and so does the one that looks for lanes: none
costs a statement more. Tasks that were claimed before go on. Its end leaves a row in a table of
its own, which is read where a run is late beyond its grace.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django_tasks.models import Pause
from django_tasks.store.dialects import dialect_of, flatten, placeholders
from django_tasks.store.transactions import retried, write_transaction


class Scope(NamedTuple):
    """The scope of a pause: the tasks of a queue and a code; an empty one means any."""

    queue: str
    biz_code: str


def scope_of(pause: Pause) -> Scope:
    return Scope(pause.queue, pause.biz_code)


def scopes_over(queue: str, biz_code: str) -> tuple[Scope, ...]:
    """The scopes of all pauses that may hold a task, the widest first."""
    return Scope("", ""), Scope("", biz_code), Scope(queue, ""), Scope(queue, biz_code)


class PauseIndex:
    """Finds the pause that holds a task. Of 2,000 pauses each takes as long as of one."""

    def __init__(self, pauses: Iterable[Pause]) -> None:
        self._by_scope = {scope_of(pause): pause for pause in pauses}

    def widest(self, queue: str, biz_code: str) -> Pause | None:
        """The widest pause over the tasks of a queue and a code; None: they are not paused."""
        found = map(self._by_scope.get, scopes_over(queue, biz_code))
        return next(filter(None, found), None)


@retried
def set_pause(scope: Scope, now: datetime, by: str = "", *, using: str) -> bool:
    """Pause ``scope``, and say by whom; False if it was already: then the first one stands.

    Race: two clients pause the same. The unique key lets one insert, and the other changes nothing.
    """
    dialect = dialect_of(using)
    params = [*scope, dialect.to_column(now), by]
    return dialect.insert_absent("{pause} (queue, biz_code, since, {by})", params)


@retried
def unset_pause(scope: Scope, now: datetime, *, using: str) -> bool:
    """End the pause of exactly this ``scope``; False if there was none.

    Race: two clients end it. The row is locked from the look to the delete.
    """
    dialect = dialect_of(using)
    which = "queue = %s AND biz_code = %s"
    with write_transaction(using):
        found = dialect.fetch(f"SELECT since FROM {{pause}} WHERE {which}{dialect.lock}", scope)
        if not found or not dialect.execute(f"DELETE FROM {{pause}} WHERE {which}", scope):
            return False
        since = dialect.to_column(dialect.from_column(found[0][0]))
        template = "INSERT INTO {ended_pause} (queue, biz_code, since, ended)"
        params = [*scope, since, dialect.to_due(now)]
        dialect.execute(f"{template} VALUES (%s, %s, %s, %s)", params)
        return True


class Span(NamedTuple):
    """The time of a pause, aware UTC; ``ended`` is None if it is still there."""

    since: datetime
    ended: datetime | None


def spans(queue: str, biz_code: str, after: datetime, *, using: str) -> list[Span]:
    """The pauses that have held tasks of this queue and code since ``after``, the first first.

    Call outside a transaction: this connection may lead to another Galera node than that of the
    claim, which has seen the end of a pause. That one may be a moment behind.
    """
    dialect = dialect_of(using)
    dialect.catch_up()
    which = "queue IN ('', %s) AND biz_code IN ('', %s)"
    template = (
        f"SELECT since, ended FROM {{ended_pause}} WHERE {which} AND ended > %s"
        f" UNION ALL SELECT since, NULL FROM {{pause}} WHERE {which}"
    )
    names = [queue, biz_code]
    found = dialect.fetch(template, [*names, dialect.to_column(after), *names])
    moment = dialect.from_column
    held = [Span(moment(since), ended and moment(ended)) for since, ended in found]
    return sorted(held, key=lambda span: span.since)


# Ends that one call forgets, at most.
AT_ONCE = 1000


def forget_ends(before: datetime, *, using: str) -> None:
    """Forget pauses that ended before a time, a thousand of them at most.

    Race: somebody has just ended one, in a transaction that is still open. Rows are deleted by
    their ids, so nobody waits for his.
    """
    dialect = dialect_of(using)
    template = "SELECT id FROM {ended_pause} WHERE ended < %s LIMIT %s"
    ids = flatten(dialect.fetch(template, [dialect.to_column(before), AT_ONCE]))
    if ids:
        dialect.execute(f"DELETE FROM {{ended_pause}} WHERE id IN ({placeholders(len(ids))})", ids)


def pauses(*, using: str) -> list[Pause]:
    """All pauses, the widest first."""
    return list(Pause._base_manager.using(using).order_by("queue", "biz_code"))
