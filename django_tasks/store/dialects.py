"""Differences from database to database. The only vendor tests of the package stand here.

Every statement of the store is one text with ``{task}``, the other tables and ``{when}`` quoted by
the dialect (``when`` is a reserved word), and with ``%s`` for values: nothing else is ever put into
it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta, timezone
from functools import cached_property, lru_cache
from string import ascii_lowercase
from typing import Any, NamedTuple, cast

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone as django_timezone

from django_tasks.clock import ClockReading
from django_tasks.host.clocks import EPOCH, ticks, utc_now
from django_tasks.models import Gate, Pause, Task, TaskRun, WorkerRow
from django_tasks.timezones import for_django, storable

Params = Sequence[Any]

# Below so many rows a parameter for each value is quicker than one for all.
FEW = 5

# The name under which a connection keeps its dialect.
KEPT = "_django_tasks_dialect"


class Bounds(NamedTuple):
    """The longest waits of a session, in seconds: for a lock, and for a whole statement."""

    lock_wait: float
    statement: float


class Dialect:
    """The manners of one database, bound to one connection."""

    clock_sql: str
    # UPDATE … RETURNING and DELETE … RETURNING
    returns_updates = True
    returns_deletes = True
    # INSERT … RETURNING, also for rows that were updated instead; and whether it leaves out rows
    # that the statement's WHERE left alone
    returns_inserts = True
    returns_only_moved = True
    # A node of a Galera cluster: other nodes write as well, and it may be a moment behind them
    is_galera = False
    # MIN over GROUP BY hops along an index instead of reading all of it
    groups_along_index = False
    # What makes a pattern ignore case where the column's collation compares bytes
    any_case = ""
    # NOTIFY and LISTEN
    notifies = False
    # How often to repeat a statement at once when somebody else was in its way
    contention_retries = 10
    # Read rows of our own transaction so that nobody else can change them.
    lock = " FOR UPDATE"
    lock_free_rows = " FOR UPDATE SKIP LOCKED"

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    # Statements

    def sql(self, template: str) -> str:
        """A statement's template with its names quoted."""
        return _quoted(template, self.connection.ops.quote_name("x"))

    def execute(self, template: str, params: Params = ()) -> int:
        """Run a statement and return its row count."""
        with self.connection.cursor() as cursor:
            cursor.execute(self.sql(template), params)
            return cast(int, cursor.rowcount)

    def fetch(self, template: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(self.sql(template), params)
            return cast(list[tuple[Any, ...]], cursor.fetchall())

    def insert(self, names: str, params: Params) -> int:
        """Insert a row and return its id. ``names``: table and columns."""
        template = f"INSERT INTO {names} VALUES ({marks(len(params))}) RETURNING id"
        ((row_id,),) = self.fetch(template, params)
        return int(row_id)

    def insert_absent(self, names: str, params: Params) -> bool:
        """Insert a row unless its key is taken; whether it was. ``names``: table and columns."""
        template = f"INSERT INTO {names} VALUES ({marks(len(params))}) ON CONFLICT DO NOTHING"
        return self.execute(template, params) == 1

    def source(
        self, types: Sequence[str], rows: Sequence[tuple[Any, ...]], constants: str = ""
    ) -> tuple[str, list[Any]]:
        """The source of an INSERT's rows, each with ``constants`` at its end; parameters.

        ``constants`` is SQL that begins with a comma, or nothing.
        """
        return f"VALUES {_tuples(len(types), len(rows), constants)}", flat(rows)

    def row_list(self, width: int, count: int) -> str:
        """Placeholders for what stands inside ``(a, b) IN (…)``."""
        return "VALUES " + _tuples(width, count)

    def among(self, keys: Sequence[tuple[int, ...]], *columns: str) -> tuple[str, list[Any]]:
        """Condition and parameters for rows by id that still have these values in ``columns``.

        A list of ids is what every planner finds rows by; the rest is checked on those.
        """
        ids, *values = zip(*keys, strict=True)
        found, params = self._by_id(ids)
        if all(len(set(column)) == 1 for column in values):
            # As with most batches: a quarter of the parameters, each of which costs time.
            fence = " AND ".join(f"{column} = %s" for column in columns)
            return f"{found} AND {fence}", [*params, *keys[0][1:]]
        rows, fences = self._as_rows(keys)
        names = ", ".join(["id", *columns])
        return f"{found} AND ({names}) IN ({rows})", [*params, *fences]

    def _by_id(self, ids: Sequence[int]) -> tuple[str, list[Any]]:
        return f"id IN ({marks(len(ids))})", [*ids]

    def _as_rows(self, keys: Sequence[tuple[int, ...]]) -> tuple[str, list[Any]]:
        return self.row_list(len(keys[0]), len(keys)), flat(keys)

    def cast_time(self, expression: str) -> str:
        """A column of literals as what ``when`` holds."""
        return expression

    def cast_json(self, expression: str) -> str:
        """A column of literals as what ``biz_ext`` holds."""
        return expression

    # Times

    def to_column(self, moment: datetime) -> Any:
        """An aware datetime as a parameter that stores what Django would store."""
        return self.connection.ops.adapt_datetimefield_value(for_django(moment))

    def to_due(self, moment: datetime) -> Any:
        """An aware datetime at which a task is to run, never earlier: see ``storable``."""
        return self.to_column(self.storable(moment))

    def storable(self, moment: datetime) -> datetime:
        """An aware datetime as a column reads it back: itself, or later where an hour comes twice.

        Columns hold local times without ``USE_TZ``, and also with it where the database has a
        ``TIME_ZONE`` of its own in DATABASES; with ``USE_TZ`` PostgreSQL's know UTC in any case.
        """
        zone = self.connection.timezone
        if zone is timezone.utc:  # as almost all
            return moment
        if zone is not None and self.connection.features.supports_timezones:
            return moment
        return storable(moment, zone or django_timezone.get_default_timezone())

    def readable(self, column: str) -> str:
        """A datetime column as something that drivers read quickly, for ``from_column``.

        What they make of a datetime column takes Python and several microseconds in each of them.
        """
        return f"CAST({column} AS char)"

    def from_column(self, value: Any) -> datetime:
        """A value that a driver read from a datetime or a ``readable`` column, as aware UTC."""
        if isinstance(value, int):
            return EPOCH + timedelta(0, 0, value)
        if isinstance(value, str):
            if self.connection.timezone is timezone.utc:  # in a quarter of the time
                return datetime.fromisoformat(value + "+00:00")
            value = datetime.fromisoformat(value)
        moment: datetime = value
        if moment.tzinfo is None:
            zone = self.connection.timezone or django_timezone.get_default_timezone()
            # replace() takes twice as long.
            moment = datetime.combine(moment, moment.time(), zone)
        return moment if moment.tzinfo is timezone.utc else moment.astimezone(timezone.utc)

    def read_clock(self) -> ClockReading:
        """The database's clock, now."""
        ((value,),) = self.fetch(f"SELECT {self.clock_sql}")
        return self.reading(value)

    def reading(self, value: Any) -> ClockReading:
        """A ``ClockReading`` of a value of ``clock_sql`` that has just arrived."""
        return ClockReading(self.utc(value), ticks())

    def utc(self, value: Any) -> datetime:
        """A value of ``clock_sql`` as aware UTC."""
        moment: datetime = value
        return moment.replace(tzinfo=timezone.utc)

    # Errors

    def is_contention(self, error: BaseException) -> bool:
        """Tell if somebody else was in the way: the same statement may succeed when repeated."""
        return self._contention(error.__cause__ or error)

    def _contention(self, cause: BaseException) -> bool:
        raise NotImplementedError

    def is_of_data(self, cause: BaseException) -> bool:
        """Tell if the driver's error says that a value cannot be stored."""
        raise NotImplementedError

    def is_of_world(self, cause: BaseException) -> bool:
        """Tell if the driver's error is about the connection or the server."""
        raise NotImplementedError

    def has_number(self, cause: BaseException) -> bool:
        """Tell if the driver's error has a number by which it can be told from others."""
        raise NotImplementedError

    def was_cut_off(self, cause: BaseException) -> bool:
        """Tell if the server has ended a statement that took longer than its bound."""
        return False

    # Sessions

    def bound(self, bounds: Bounds) -> None:
        """Let no statement of this session wait longer than ``bounds`` say.

        The session itself may be idle for as long as it likes.
        """

    def bounded(self) -> AbstractContextManager[None]:
        """Around a statement of Django's own: bound it where ``execute`` and ``fetch`` must."""
        return _NOTHING

    def catch_up(self) -> None:
        """From now on see all that any node had committed before. Call outside a transaction."""


class SQLite(Dialect):
    clock_sql = "NULL"
    contention_retries = 0  # it has waited for the busy time-out already
    lock = ""  # a transaction that is going to write holds the only write lock
    lock_free_rows = ""

    def to_column(self, moment: datetime) -> Any:
        if self.connection.timezone is not timezone.utc:
            return super().to_column(moment)
        # What Django stores, in a twentieth of the time.
        return moment.astimezone(timezone.utc).replace(tzinfo=None).isoformat(" ")

    def bound(self, bounds: Bounds) -> None:
        # A pragma in the project's init_command comes after the option, and counts instead of it.
        milliseconds = int(1000 * bounds.lock_wait)  # a pragma takes no placeholders
        self.fetch(f"PRAGMA busy_timeout = {milliseconds}")

    def read_clock(self) -> ClockReading:
        return self.reading(None)

    def utc(self, value: Any) -> datetime:
        # The database runs in this process: its clock is the host's.
        return utc_now()

    def _contention(self, cause: BaseException) -> bool:
        code = _sqlite_code(cause)
        return "locked" in str(cause) if code is None else code in (5, 6)  # BUSY, LOCKED

    def is_of_data(self, cause: BaseException) -> bool:
        return _sqlite_code(cause) in (18, 19, 20, 25)  # TOOBIG, CONSTRAINT, MISMATCH, RANGE

    def is_of_world(self, cause: BaseException) -> bool:
        # PERM, ABORT, NOMEM, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, SCHEMA,
        # NOLFS, AUTH, NOTADB; 3.10 has no numbers.
        numbers = (3, 4, 7, 8, 9, 10, 11, 13, 14, 15, 17, 22, 23, 26)
        code = _sqlite_code(cause)
        return code in numbers if code is not None else bool(_SQLITE_WORLD.search(str(cause)))

    def has_number(self, cause: BaseException) -> bool:
        return _sqlite_code(cause) is not None


class PostgreSQL(Dialect):
    # Without a zone of its own, so that neither the session's nor Django's can get at it.
    clock_sql = "clock_timestamp() AT TIME ZONE 'UTC'"
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
        names = ascii_lowercase[: len(types)]
        records = [dict(zip(names, row, strict=True)) for row in rows]
        casts = ", ".join(f"n.{name}::{kind}" for name, kind in zip(names, types, strict=True))
        columns = ", ".join(f"{name} text" for name in names)
        source = f"SELECT {casts}{constants} FROM json_to_recordset(%s) AS n({columns})"
        return source, [json.dumps(records, default=str)]

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
        # 58 system, XX internal; and a transaction that is read-only.
        state = getattr(cause, "sqlstate", None) or ""
        return state == "25006" or state[:2] in ("08", "28", "3D", "53", "57", "58", "XX")

    def has_number(self, cause: BaseException) -> bool:
        return getattr(cause, "sqlstate", None) is not None

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
        return _NOTHING if bounds is None else self._in_bounds(bounds)

    @contextmanager
    def _in_bounds(self, bounds: Bounds) -> Iterator[None]:
        with transaction.atomic(using=self.connection.alias, savepoint=False):
            self._set_bounds(bounds, is_local=True)
            yield

    def _set_bounds(self, bounds: Bounds, *, is_local: bool) -> None:
        lock_wait, statement = (str(int(seconds * 1000)) for seconds in bounds)
        super().fetch(
            "SELECT set_config('lock_timeout', %s, %s), set_config('statement_timeout', %s, %s)",
            [lock_wait, is_local, statement, is_local],
        )


class MySQL(Dialect):
    # Never CURRENT_TIMESTAMP: Django does not set the session's time zone.
    clock_sql = "UTC_TIMESTAMP(6)"
    returns_updates = False
    returns_deletes = False
    returns_inserts = False
    returns_only_moved = False
    groups_along_index = True
    any_case = "(?i)"

    def insert(self, names: str, params: Params) -> int:
        template = f"INSERT INTO {names} VALUES ({marks(len(params))})"
        with self.connection.cursor() as cursor:
            cursor.execute(self.sql(template), params)
            return cast(int, cursor.lastrowid)

    def insert_absent(self, names: str, params: Params) -> bool:
        # Not ON DUPLICATE KEY: with FOUND_ROWS its count is 1 for a row that was there already.
        template = f"INSERT IGNORE INTO {names} VALUES ({marks(len(params))})"
        return self.execute(template, params) == 1

    def row_list(self, width: int, count: int) -> str:
        return _tuples(width, count)

    @cached_property
    def lock_free_rows(self) -> str:  # type: ignore[override]
        # MariaDB 10.5 has no SKIP LOCKED; NOWAIT then fails quickly instead of waiting.
        skips = self.connection.features.has_select_for_update_skip_locked
        return " FOR UPDATE SKIP LOCKED" if skips else " FOR UPDATE NOWAIT"

    def _contention(self, cause: BaseException) -> bool:
        # lock wait time-out, deadlock (also Galera's failed certification), that of MySQL's group
        # replication, and MariaDB 11.6's "record has changed since last read" under snapshot
        # isolation
        return _number(cause) in (1205, 1213, 3101, 1020)

    def is_of_data(self, cause: BaseException) -> bool:
        return _number(cause) in _MYSQL_DATA

    def is_of_world(self, cause: BaseException) -> bool:
        number = _number(cause)
        return 2000 <= number < 3000 or 9000 <= number < 10_000 or number in _MYSQL_WORLD

    def has_number(self, cause: BaseException) -> bool:
        return _number(cause) != 0

    def was_cut_off(self, cause: BaseException) -> bool:
        return _number(cause) in (1969, 3024)  # MariaDB's, MySQL's

    def bound(self, bounds: Bounds) -> None:
        # Of rows, and of tables: a migration waits for a report, and all who come wait behind it,
        # for a day by default. MySQL can bound no statement but SELECT: there the time-out of the
        # network is the bound (``connection``).
        self.execute(_WAITS, [_whole_seconds(bounds)] * 2)


class MariaDB(MySQL):
    returns_deletes = True
    returns_inserts = True

    @cached_property
    def is_galera(self) -> bool:  # type: ignore[override]
        return ("wsrep_on", "ON") in self.fetch("SHOW VARIABLES LIKE 'wsrep_on'")

    def bound(self, bounds: Bounds) -> None:
        seconds = _whole_seconds(bounds)
        # Longer than a wait for a lock, which is to be told as one.
        statement = max(bounds.statement, 2.0 * seconds)
        template = f"{_WAITS}, SESSION max_statement_time = %s"
        self.execute(template, [seconds, seconds, statement])

    def catch_up(self) -> None:
        if self.is_galera:
            self.fetch("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1 FROM {task} LIMIT 1")


_NOTHING = nullcontext()

# A session of ours sleeps for as long as there is nothing to do, and the server is not to end it.
_WAITS = (
    "SET SESSION innodb_lock_wait_timeout = %s, SESSION lock_wait_timeout = %s,"
    " SESSION wait_timeout = GREATEST(@@SESSION.wait_timeout, 100000)"
)


def _whole_seconds(bounds: Bounds) -> int:
    """MySQL's and MariaDB's waits for locks are whole seconds, one or more."""
    return max(1, int(bounds.lock_wait))


_SQLITE_WORLD = re.compile("disk|readonly|read-only|unable to open|malformed|not a database|I/O")

# A value that a column, a charset, a constraint or a packet cannot take; 1644 is what a trigger of
# the user's raises.
_MYSQL_DATA = frozenset(
    {
        *(1048, 1062, 1153, 1216, 1217, 1264, 1265, 1267, 1292, 1300, 1301, 1366, 1367, 1406),
        *(1451, 1452, 1644, 1690, 3140, 3819, 3988, 4025, 4038),
    }
)
# Connections, rights, shutdown, files, space, killed, timed out, read-only, offline, idle for too
# long, a node without its cluster; from 9000 on ProxySQL's own.
_MYSQL_WORLD = frozenset(
    {
        *(1016, 1021, 1024, 1026, 1030, 1037, 1038, 1040, 1041, 1042, 1043, 1044, 1045, 1046),
        *(1047, 1049, 1053, 1077, 1078, 1079, 1080, 1114, 1129, 1130, 1135, 1152),
        *(1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1180, 1184, 1203, 1206, 1226, 1290),
        *(1317, 1792, 1836, 1874, 1881, 1927, 1969, 3024, 3032, 3100, 3101, 3168, 3169, 4031),
    }
)


def _number(cause: BaseException) -> int:
    """The number of a MySQL error; 0 if it has none."""
    number = cause.args[0] if cause.args else 0
    return number if isinstance(number, int) else 0


def _sqlite_code(cause: BaseException) -> int | None:
    """The primary result code; Python 3.11 and later have it."""
    code = getattr(cause, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


@lru_cache(maxsize=256)
def _quoted(template: str, quoted_x: str) -> str:
    quote = quoted_x[0]
    return template.format(
        task=f"{quote}{Task._meta.db_table}{quote}",
        worker=f"{quote}{WorkerRow._meta.db_table}{quote}",
        pause=f"{quote}{Pause._meta.db_table}{quote}",
        gate=f"{quote}{Gate._meta.db_table}{quote}",
        run=f"{quote}{TaskRun._meta.db_table}{quote}",
        when=f"{quote}when{quote}",
    )


def dialect_of(using: str) -> Dialect:
    """The dialect of a database alias, bound to this thread's connection, and kept with it."""
    connection = connections[using]
    kept: Dialect | None = vars(connection).get(KEPT)
    if kept is None:
        kept = _kind(connection)(connection)
        setattr(connection, KEPT, kept)
    return kept


def judge_of(using: str) -> Dialect:
    """A dialect to tell errors apart with. Nothing is asked of the database, which may be down."""
    connection = connections[using]
    kept: Dialect | None = vars(connection).get(KEPT)
    return kept or _family(connection)(connection)


def _kind(connection: BaseDatabaseWrapper) -> type[Dialect]:
    family = _family(connection)
    # To know which, Django connects.
    is_mariadb = family is MySQL and connection.mysql_is_mariadb  # type: ignore[attr-defined]
    return MariaDB if is_mariadb else family


def _family(connection: BaseDatabaseWrapper) -> type[Dialect]:
    """MySQL stands for MariaDB as well: their errors have the same numbers."""
    if connection.vendor == "mysql":
        return MySQL
    if connection.vendor == "postgresql":
        return PostgreSQL
    if connection.vendor == "sqlite":
        return SQLite
    raise NotImplementedError(f"django_tasks does not run on {connection.vendor}")


def has_one_writer(using: str) -> bool:
    """Tell if transactions that write wait for each other there, whatever they write. Nothing is
    asked of the database, which may be down.
    """
    return connections[using].vendor == "sqlite"


def marks(count: int) -> str:
    """``count`` placeholders for an IN list."""
    return ", ".join(["%s"] * count)


@lru_cache(maxsize=64)
def _tuples(width: int, count: int, end: str = "") -> str:
    return ", ".join([f"({marks(width)}{end})"] * count)


def _array(values: Iterable[int]) -> str:
    """Whole numbers as one parameter: with one for each, psycopg took longer than the server."""
    return "{" + ",".join(map(str, values)) + "}"


def flat(rows: Iterable[Iterable[Any]]) -> list[Any]:
    return [value for row in rows for value in row]
