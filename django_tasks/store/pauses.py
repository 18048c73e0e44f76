"""Pauses of a whole: a code, a queue, a code in a queue, or everything.

A pause is a row. The statement that claims sees it, and so does the one that looks for lanes: none
costs a statement more. Tasks that were claimed before go on.
"""

from datetime import datetime
from typing import NamedTuple

from django_tasks.models import Pause
from django_tasks.store.dialects import dialect_of
from django_tasks.store.transactions import retried


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
def unset_pause(scope: Scope, *, using: str) -> bool:
    """End the pause of exactly this ``scope``; False if there was none."""
    template = "DELETE FROM {pause} WHERE queue = %s AND biz_code = %s"
    return dialect_of(using).execute(template, scope) == 1


def pauses(*, using: str) -> list[Pause]:
    """All pauses, the widest first."""
    return list(Pause._base_manager.using(using).order_by("queue", "biz_code"))
