"""Bounded looks at the tasks of a filter, for pages: millions may match, or miss.

What an index finds is looked up as it is. The rest of a filter (an exception, a text in the error,
a time of change, a schedule) is seen in the rows alone, and of these no more than LOOKED are
looked at.
"""

from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import F, Func, Q, QuerySet
from django.db.models.lookups import Exact, In

from django_tasks.models import Task
from django_tasks.reads.filters import TaskFilter
from django_tasks.store.backlog import MOST_LOOKS, newest_each
from django_tasks.values.status import Status

LOOKED = 5_000


class FoundRows(NamedTuple):
    """Rows that match. ``looked``: of more tasks only so many were looked at; 0: at all."""

    rows: QuerySet[Task]
    looked: int = 0


def look(tasks: TaskFilter, *, using: str, now: datetime) -> FoundRows:
    """Look for the tasks of a filter by the clock ``now`` (aware UTC)."""
    rows = tasks.rows(using=using, now=now)
    if not tasks.sifting():
        return FoundRows(rows)
    sought = tasks.sought()
    ids = list(_last_first(sought, using, now).values_list("pk", flat=True)[: LOOKED + 1])
    if len(ids) <= LOOKED:
        return FoundRows(rows)
    if sought.status is not None and not (sought.due or sought.stuck or sought.search):
        ids = _of_each_lane(sought.status, sought, using) or ids
    among = Task.objects.using(using).filter(tasks.sifting(), pk__in=ids[:LOOKED])
    return FoundRows(among, min(len(ids), LOOKED))


def _last_first(sought: TaskFilter, using: str, now: datetime) -> QuerySet[Task]:
    """Rows that an index finds; where it has them in an order of use, the last ones first."""
    rows = sought.rows(using=using, now=now)
    if not sought:
        return rows.order_by("-pk")
    return rows.order_by("-biz_num") if sought == TaskFilter(code=sought.code) else rows


def _of_each_lane(status: Status, sought: TaskFilter, using: str) -> list[int]:
    lanes = [lane for _status, lane in sought.lanes(using=using)][:MOST_LOOKS]
    return newest_each(lanes, status, LOOKED // max(1, len(lanes)), using=using)


# Walks along ids


class _Bare(Func):
    """A column that no index serves. SQLite takes an index of equals before a range of ids."""

    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="+%(expressions)s", **context)


_INDEXED = ("status", "biz_code", "queue", "biz_num")
_LOOKUPS: dict[str, Any] = {"": Exact, "in": In}


def without_index(matching: Q) -> Q:
    """The same condition, for a walk along ids: it tempts no database to another index."""
    children = [
        without_index(each) if isinstance(each, Q) else _bare(each) for each in matching.children
    ]
    return Q(*children, _connector=matching.connector, _negated=matching.negated)


def _bare(condition: Any) -> Any:
    name, value = condition if isinstance(condition, tuple) else ("", None)
    column, _, lookup = name.partition("__")
    if column not in _INDEXED or lookup not in _LOOKUPS:
        return condition
    return _LOOKUPS[lookup](_Bare(F(column)), value)
