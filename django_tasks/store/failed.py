"""Failed rows that nobody has asked for in a long time go, if the project wants that."""

from datetime import datetime
from random import sample

from django.db import DatabaseError

from django_tasks.store.dialects import Dialect, dialect_of, flatten, placeholders
from django_tasks.store.lanes import Lane, every_lane
from django_tasks.store.transactions import is_contention, write_transaction
from django_tasks.values.status import STATUS_OF_FOUND, Status

# Rows that one call deletes, and lanes at which a worker's call looks, at most.
AT_ONCE = 500
MOST_LANES = 100

# A row fails after the time at which it was due, so the index leads to those that failed first. A
# recurring one is kept: its schedule would be gone with it.
_OLD = "{when} < %s AND update_time < %s AND schedule IS NULL"
_OF_LANE = f"status = {Status.FAILED:d} AND queue = %s AND priority = %s AND biz_code = %s"


def delete_old_failed(before: datetime, *, using: str, most_lanes: int | None = None) -> int:
    """Delete up to AT_ONCE rows that FAILED before ``before`` (aware); returns how many.

    Those that were due first; of more than ``most_lanes`` some are looked at by chance, for there
    may be nothing in the first ones but recurring rows, which stay. 0 as well while somebody is in
    the way: nothing is tried again here, for the caller may have a lease to keep.

    Race: somebody requeues one meanwhile, or it fails again. What is deleted must still be FAILED
    and as old, in the statement that deletes it; locked rows are left for the next time.
    """
    dialect = dialect_of(using)
    lanes = [lane for lane in every_lane(Status.FAILED, using=using) if lane.first < before]
    lanes = sample(lanes, min(most_lanes or len(lanes), len(lanes)))
    try:
        for lane in sorted(lanes, key=lambda lane: lane.first):
            if ids := _old(dialect, lane, before, AT_ONCE):
                return _delete(dialect, ids, before)
    except DatabaseError as error:
        if not is_contention(using, error):
            raise
    return 0


def _old(dialect: Dialect, lane: Lane, before: datetime, most: int) -> list[int]:
    template = (
        f"SELECT{dialect.by_lane} id FROM {{task}} WHERE {_OF_LANE} AND {_OLD}"
        " ORDER BY {when}, id LIMIT %s"
    )
    moment = dialect.to_column(before)
    return flatten(dialect.fetch(template, [*lane[:3], moment, moment, most]))


def _delete(dialect: Dialect, ids: list[int], before: datetime) -> int:
    with write_transaction(dialect.connection.alias):
        look = f"SELECT id FROM {{task}} WHERE id IN ({placeholders(len(ids))})"
        free = flatten(dialect.fetch(look + dialect.lock_free_rows, ids))
        if not free:
            return 0
        template = (
            f"DELETE FROM {{task}} WHERE id IN ({placeholders(len(free))})"
            f" AND {STATUS_OF_FOUND} = {Status.FAILED:d} AND {_OLD}"
        )
        moment = dialect.to_column(before)
        return dialect.execute(template, [*free, moment, moment])
