"""PostgreSQL: arrays and JSON for many values, NOTIFY, and bounds that a pooler cannot keep."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from django.db import transaction

from django_tasks.store.dialects.base import NOTHING, Bounds, Dialect, Params

# With fewer rows than this, one parameter per value is faster than one for all.
FEW = 5

# A right, a table, and a prepared statement that a pooler has given to somebody else.
_NOT_OF_STATEMENTS = ("42501", "42P01", "42P05")


class PostgreSQL(Dialect):
    # Without a zone of its own, so that neither the session's nor Django's can get at it.
    clock_sql = "clock_timestamp() AT TIME ZONE 'UTC'"
    has_lateral = True
    notifies = True
    _local_bounds: Bounds | None = None

    def _by_id(self, ids: Sequence[int]) -> tuple[str, list[Any]]:
        return "id = ANY(%s::bigint[])", [_array(ids)]

    def _as_rows(self, keys: Sequence[tuple[int, ...]]) -> tuple[str, list[Any]]:
        arrays = ", ".join(["%s::bigint[]"] * len(keys[0]))
        columns = zip(*keys, strict=True)
        return f"SELECT * FROM unnest({arrays})", [_array(column) for column in columns]

    def source(
        self, types: Sequence[str], rows: Sequence[tuple[Any, ...]], constants: str = ""
    ) -> tuple[str, list[Any]]:
        if len(rows) < FEW:
            return super().source(types, rows, constants)
        # One parameter for all: with one for each value, psycopg took as long as the server.
        names = [f"c{place}" for place in range(len(types))]
        records = [dict(zip(names, row, strict=True)) for row in rows]
        casts = ", ".join(f"n.{name}::{kind}" for name, kind in zip(names, types, strict=True))
        columns = ", ".join(f"{name} text" for name in names)
        source = f"SELECT {casts}{constants} FROM json_to_recordset(%s) AS n({columns})"
        return source, [json.dumps(records, default=str)]

    def continue_ids(self, highest: int) -> None:
        # The sequence hears of no id that it has not given, and must never go back.
        sequence = "pg_get_serial_sequence(%s, 'id')::regclass"
        given = f"COALESCE(pg_sequence_last_value({sequence}), 1)"
        table = self.sql("{task}")
        self.fetch(f"SELECT setval({sequence}, GREATEST(%s, {given}))", [table, highest, table])

    def give_up_index_names(self, table: str, names: Sequence[str], ending: str) -> None:
        # The index of a constraint takes the constraint's name along.
        found = self.fetch(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE i.indrelid = %s::regclass AND c.relname = ANY(%s)",
            [self.connection.ops.quote_name(table), list(names)],
        )
        for (name,) in found:
            old, new = map(self.connection.ops.quote_name, (name, name + ending))
            self.execute(f"ALTER INDEX {old} RENAME TO {new}")

    def readable(self, column: str) -> str:
        return f"CAST(EXTRACT(EPOCH FROM {column}) * 1000000 AS bigint)"

    def cast_time(self, expression: str) -> str:
        return f"{expression}::timestamptz"

    def cast_json(self, expression: str) -> str:
        return f"{expression}::jsonb"

    def _contention(self, cause: BaseException) -> bool:
        # serialization failure, deadlock, lock not available
        return getattr(cause, "sqlstate", None) in ("40001", "40P01", "55P03")

    def is_of_data(self, cause: BaseException) -> bool:
        # data exception, integrity constraint, program limit, an exception that a trigger of the
        # user's raises. But 54000 is both: an index entry that is too long, and a server that takes
        # no writes at all because its transaction numbers are running out.
        state = getattr(cause, "sqlstate", None) or ""
        is_limit = state[:2] == "54" and state != "54000"
        return state[:2] in ("22", "23", "44") or is_limit or state == "P0001"

    def is_of_world(self, cause: BaseException) -> bool:
        # Classes: 08 connection, 28 authorization, 3D database, 53 resources, 57 operator,
        # 58 system, XX internal; and a transaction that is read-only, or was idle for too long.
        state = getattr(cause, "sqlstate", None) or ""
        is_ended = state in ("25006", "25P03")
        return is_ended or state[:2] in ("08", "28", "3D", "53", "57", "58", "XX")

    def is_of_statement(self, cause: BaseException) -> bool:
        # The class of syntax and names. In a function, as a trigger of the user's, it may be about
        # one row alone.
        state = self.number(cause)
        is_in_function = getattr(getattr(cause, "diag", None), "context", None)
        return state[:2] == "42" and state not in _NOT_OF_STATEMENTS and not is_in_function

    def number(self, cause: BaseException) -> str:
        return getattr(cause, "sqlstate", None) or ""

    def was_cut_off(self, cause: BaseException) -> bool:
        return getattr(cause, "sqlstate", None) == "57014"

    def execute(self, template: str, params: Params = ()) -> int:
        with self.bounded():
            return super().execute(template, params)

    def fetch(self, template: str, params: Params = ()) -> list[tuple[Any, ...]]:
        with self.bounded():
            return super().fetch(template, params)

    def bound(self, bounds: Bounds) -> None:
        self._local_bounds = None
        ((pid,),) = super().fetch("SELECT pg_backend_pid()")
        raw: Any = self.connection.connection
        if pid == raw.info.backend_pid:
            self._set_bounds(bounds, is_local=False)
            super().fetch("SELECT set_config('idle_session_timeout', '0', false)")
        else:
            # A pooler such as PgBouncer stands between, which gives this server session to others
            # after each transaction: what is set for the session would hold for them.
            self._local_bounds = bounds

    def bounded(self) -> AbstractContextManager[None]:
        if self.connection.connection is None:
            self.connection.ensure_connection()  # only then it is known if there are any
        bounds = self._local_bounds
        return NOTHING if bounds is None else self._in_bounds(bounds)

    @contextmanager
    def _in_bounds(self, bounds: Bounds) -> Iterator[None]:
        with transaction.atomic(using=self.connection.alias, savepoint=False):
            self._set_bounds(bounds, is_local=True)
            yield

    def _set_bounds(self, bounds: Bounds, *, is_local: bool) -> None:
        lock_wait, statement = (str(int(seconds * 1000)) for seconds in bounds)
        super().fetch(
            "SELECT set_config('lock_timeout', %s, %s), set_config('statement_timeout', %s, %s),"
            " set_config('idle_in_transaction_session_timeout', %s, %s)",
            [lock_wait, is_local, statement, is_local, f"{bounds.answer}s", is_local],
        )


def _array(values: Iterable[int]) -> str:
    """Whole numbers as one parameter: with one for each, psycopg took longer than the server."""
    return "{" + ",".join(map(str, values)) + "}"
