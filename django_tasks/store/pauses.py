"""Pauses of a whole: a code, a queue, a code in a queue, or everything.

A pause is a row. The statement that claims sees it, and so does the one that looks for lanes: none
costs a statement more. Tasks that were claimed before go on. Its end leaves a row in a table of
its own, which is read where a run is late beyond its grace.
"""

from datetime import datetime
from typing import NamedTuple

from django_tasks.models import Pause
from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import retried, write_transaction


class Scope(NamedTuple):
    """The scope of a pause: the tasks of a queue and a code; an empty one means any."""

    queue: str
    biz_code: str

    def covers(self, queue: str, biz_code: str) -> bool:
        return self.queue in ("", queue) and self.biz_code in ("", biz_code)


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
    """End the pause of exactly this ``scope``; False if there was none."""
    dialect = dialect_of(using)
    with write_transaction(using):
        if not dialect.execute("DELETE FROM {pause} WHERE queue = %s AND biz_code = %s", scope):
            return False
        template = "INSERT INTO {ended_pause} (queue, biz_code, ended) VALUES (%s, %s, %s)"
        dialect.execute(template, [*scope, dialect.to_column(now)])
        return True


def last_end(queue: str, biz_code: str, *, using: str) -> datetime | None:
    """The time at which the last pause of a task of this queue and code ended; None: none did."""
    dialect = dialect_of(using)
    template = (
        "SELECT MAX(ended) FROM {ended_pause} WHERE queue IN ('', %s) AND biz_code IN ('', %s)"
    )
    ((ended,),) = dialect.fetch(template, [queue, biz_code])
    return None if ended is None else dialect.from_column(ended)


def forget_ends(before: datetime, *, using: str) -> None:
    """Forget pauses that ended before a time. Race: others forget them too; then they are gone."""
    dialect = dialect_of(using)
    dialect.execute("DELETE FROM {ended_pause} WHERE ended < %s", [dialect.to_column(before)])


def pauses(*, using: str) -> list[Pause]:
    """All pauses, the widest first."""
    return list(Pause._base_manager.using(using).order_by("queue", "biz_code"))
