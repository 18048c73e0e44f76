"""The forerunner's table: known by its columns, set aside, and copied into ours row by row.

A mark in the old table and the new row are written in one transaction, so a row is copied once
however often the copying is interrupted, and one that has run since and is gone does not return.
Races: somebody adds a task meanwhile, by the new code (its key stands in our table, and the newer
task stays); an add takes the id of an old row (that row gets another id).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.apps import apps
from django.db import connections

from django_tasks.models import Task
from django_tasks.store import search
from django_tasks.store.dialects import Dialect, dialect_of, placeholders
from django_tasks.store.ownership import expect_count
from django_tasks.store.transactions import retried, write_transaction
from django_tasks.store.upsert import NewTask, upsert
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.status import Status

TABLE = Task._meta.db_table
ASIDE = "t_task_forerunner"
BATCH = 500

_COLUMNS = ("id", "biz_code", "biz_num", "when", "biz_ext", "status", "version")
_TIMES = ("create_time", "update_time")
_THEIRS = frozenset((*_COLUMNS, *_TIMES))
# Not one of these: else it is ours, of whatever version.
_OURS = frozenset(field.column for field in Task._meta.concrete_fields) - _THEIRS
# The column that we add to the table that is set aside: not NULL in rows that were copied.
_MARK = "adopted"
_NEW = (
    "id, biz_code, biz_num, {when}, biz_ext, queue, priority, create_time, update_time, version,"
    " status, attempts, rescues, last_error, name, runs"
)
_NEW_TYPES = (
    *("bigint", "text", "text", "timestamptz", "jsonb", "text", "smallint"),
    *("timestamptz", "timestamptz", "bigint"),
)
_NEW_CONSTANTS = f", {Status.PENDING:d}, 0, 0, '', '', 0"


class OldTable(NamedTuple):
    """A table of the forerunner's shape; ``has_marks`` tells if a copying has begun."""

    name: str
    has_marks: bool

    @property
    def is_aside(self) -> bool:
        return self.name == ASIDE


class OldRow(NamedTuple):
    """A row of the forerunner's, as the driver gives it."""

    id: int
    biz_code: Any
    biz_num: Any
    when: Any
    biz_ext: Any
    status: Any
    version: Any
    create_time: Any
    update_time: Any


class Adopted(NamedTuple):
    """A row of the forerunner's as it is to stand in our table; times are aware."""

    id: int
    task: NewTask
    create_time: datetime
    update_time: datetime
    version: int


def under_our_name(*, using: str) -> OldTable | None:
    """The forerunner's table where ours is to be."""
    return _recognised(TABLE, using)


def set_aside(*, using: str) -> OldTable | None:
    """The forerunner's table under the name that ``rename`` gives it."""
    return _recognised(ASIDE, using)


def _recognised(name: str, using: str) -> OldTable | None:
    columns = _columns_of(name, using)
    if not columns >= _THEIRS or columns & _OURS:
        return None
    return OldTable(name, _MARK in columns)


def _columns_of(table: str, using: str) -> set[str]:
    """The names of a table's columns; none if there is no such table."""
    introspection = connections[using].introspection
    with connections[using].cursor() as cursor:
        if table not in introspection.table_names(cursor):
            return set()
        return {column.name for column in introspection.get_table_description(cursor, table)}


def rolls_back(old: OldTable, *, using: str) -> bool:
    """Tell if its rows can be marked in the transaction that copies them."""
    return dialect_of(using).rolls_back(old.name)


def rename(old: OldTable, *, using: str) -> OldTable:
    """Give our name free: the old table gets another one, and a column for marks.

    The column comes first: where each of these statements commits by itself, a table that has been
    renamed has it. So do the names of its indexes that ours need.
    """
    dialect = dialect_of(using)
    with write_transaction(using):
        if old.has_marks:  # of an adoption that was undone: nothing is copied yet
            dialect.execute(f"UPDATE {{task}} SET {_MARK} = NULL")
        else:
            dialect.execute(f"ALTER TABLE {{task}} ADD COLUMN {_MARK} smallint NULL")
        dialect.give_up_index_names(TABLE, _our_index_names(), "_forerunner")
        dialect.execute(f"ALTER TABLE {{task}} RENAME TO {_quoted(dialect, ASIDE)}")
    return OldTable(ASIDE, has_marks=True)


def _our_index_names() -> list[str]:
    models = apps.get_app_config("django_tasks").get_models()
    options = [model._meta for model in models]
    return [each.name for meta in options for each in (*meta.indexes, *meta.constraints)]


def count_left(old: OldTable, *, using: str) -> int:
    """The number of rows that were not copied yet."""
    dialect = dialect_of(using)
    ((count,),) = dialect.fetch(
        f"SELECT COUNT(*) FROM {_quoted(dialect, old.name)} WHERE {_left(old)}"
    )
    return int(count)


def rows_left(old: OldTable, *, using: str) -> Iterator[list[OldRow]]:
    """Rows that were not copied yet, in batches, the highest id first.

    With that one copied before all others, ids that the database gives from then on are higher.
    """
    dialect = dialect_of(using)
    names = ", ".join([*_COLUMNS, *_TIMES]).replace("when", "{when}")
    source = f"FROM {_quoted(dialect, old.name)} WHERE {_left(old)}"
    order = f"ORDER BY id DESC LIMIT {BATCH}"
    below = ""
    params: list[int] = []
    while batch := dialect.fetch(f"SELECT {names} {source}{below} {order}", params):
        rows = [OldRow(*values) for values in batch]
        yield rows
        below, params = " AND id < %s", [rows[-1].id]


class Copied(NamedTuple):
    """The number of rows that came over, and of those that stay behind a newer task."""

    came: int
    behind: int


@retried
def copy(rows: Sequence[Adopted], now: datetime, *, using: str) -> Copied:
    """Copy rows of the table that was set aside.

    Race: another run has copied some of them since they were read, and their tasks may have run and
    gone. So each row is locked while it has no mark, and the others are left out.
    """
    dialect = dialect_of(using)
    with write_transaction(using):
        unmarked = _unmarked(dialect, [row.id for row in rows])
        rows = [row for row in rows if row.id in unmarked]
        if not rows:
            return Copied(0, 0)
        ids, keys = _taken(dialect, rows)
        free = [row for row in rows if row.id not in ids and row.task[:2] not in keys]
        _insert(dialect, free)
        dialect.continue_ids(max(row.id for row in rows))  # before the others are given theirs
        others = [row.task for row in rows if row.id in ids or row.task[:2] in keys]
        added = upsert(others, OnConflict.KEEP, now, using=using) if others else set()
        _mark(dialect, [row.id for row in rows])
    behind = len(others) - len(added)
    return Copied(len(rows) - behind, behind)


def _unmarked(dialect: Dialect, ids: Sequence[int]) -> set[int]:
    """Those of the rows that have no mark, locked."""
    source = f"FROM {_quoted(dialect, ASIDE)} WHERE id IN ({placeholders(len(ids))})"
    template = f"SELECT id {source} AND {_MARK} IS NULL ORDER BY id{dialect.lock}"
    return {row_id for (row_id,) in dialect.fetch(template, ids)}


def _taken(dialect: Dialect, rows: Sequence[Adopted]) -> tuple[set[int], set[tuple[str, str]]]:
    """Those of the ids, and of the keys, that stand in our table."""
    template = f"SELECT id FROM {{task}} WHERE id IN ({placeholders(len(rows))})"
    ids = {row_id for (row_id,) in dialect.fetch(template, [row.id for row in rows])}
    keys = [row.task[:2] for row in rows]
    there = search.with_keys(keys, using=dialect.connection.alias)
    return ids, {(task.biz_code, task.biz_num) for task in there}


def _insert(dialect: Dialect, rows: Sequence[Adopted]) -> None:
    if not rows:
        return
    values = [_values(dialect, row) for row in rows]
    source, params = dialect.source(_NEW_TYPES, values, _NEW_CONSTANTS)
    dialect.execute(f"INSERT INTO {{task}} ({_NEW}) {source}", params)


def _values(dialect: Dialect, row: Adopted) -> tuple[Any, ...]:
    task = row.task
    times = map(dialect.to_column, (row.create_time, row.update_time))
    due = dialect.to_due(task.when)
    key = (row.id, task.biz_code, task.biz_num)
    return (*key, due, task.biz_ext, task.queue, task.priority, *times, row.version)


def _mark(dialect: Dialect, ids: Sequence[int]) -> None:
    table = _quoted(dialect, ASIDE)
    condition = f"id IN ({placeholders(len(ids))}) AND {_MARK} IS NULL"
    marked = dialect.execute(f"UPDATE {table} SET {_MARK} = 1 WHERE {condition}", list(ids))
    expect_count(marked, len(ids))


def _left(old: OldTable) -> str:
    return f"{_MARK} IS NULL" if old.has_marks else "1 = 1"


def _quoted(dialect: Dialect, table: str) -> str:
    return dialect.connection.ops.quote_name(table)
