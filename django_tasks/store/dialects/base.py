"""The manners that all databases share, and those of the standard where they differ."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, NamedTuple, cast

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone as django_timezone

from django_tasks.clock import ClockReading
from django_tasks.host.clocks import EPOCH, ticks
from django_tasks.models import EndedPause, Gate, Lock, Pause, Task, TaskMinute, TaskRun, WorkerRow
from django_tasks.store.answers import answered
from django_tasks.timezones import for_django, storable

Params = Sequence[Any]

NOTHING = nullcontext()


class Bounds(NamedTuple):
    """The longest waits of a session, in seconds: for a lock, and for a whole statement."""

    lock_wait: float
    statement: float

    @property
    def answer(self) -> int:
        """The longest wait for an answer: the server has cut the statement off long before. So
        long its session may be idle within a transaction, which holds locks, if it is gone.
        """
        return max(2, int(2 * self.statement))


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
    # A subquery of FROM that sees the rows of those before it
    has_lateral = False
    has_many_lanes = False  # at the last look for them
    # A hint to the optimizer, behind SELECT: these rows are found by the claim index, see MySQL
    by_lane = ""
    # The ORDER BY of a lane's rows, in a subquery that has the lane from a row around it
    order_in_lane = "{when}"
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
        with answered(self.connection), self.connection.cursor() as cursor:
            cursor.execute(self.sql(template), params)
            return cast(int, cursor.rowcount)

    def fetch(self, template: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with answered(self.connection), self.connection.cursor() as cursor:
            cursor.execute(self.sql(template), params)
            return cast(list[tuple[Any, ...]], cursor.fetchall())

    def insert(self, names: str, params: Params) -> int:
        """Insert a row and return its id. ``names``: table and columns."""
        template = f"INSERT INTO {names} VALUES ({placeholders(len(params))}) RETURNING id"
        ((row_id,),) = self.fetch(template, params)
        return int(row_id)

    def insert_absent(self, names: str, params: Params) -> bool:
        """Insert a row unless its key is taken; tell if it was. ``names``: table and columns."""
        template = (
            f"INSERT INTO {names} VALUES ({placeholders(len(params))}) ON CONFLICT DO NOTHING"
        )
        return self.execute(template, params) == 1

    def continue_ids(self, highest: int) -> None:
        """See to it that ids of tasks that the database gives are higher than ``highest``.

        Call it after a row with that id was inserted, which is enough for most.
        """

    def rolls_back(self, table: str) -> bool:
        """Tell if a transaction that fails takes back what it has written to a table."""
        return True

    def give_up_index_names(self, table: str, names: Sequence[str], ending: str) -> None:
        """Put ``ending`` behind those of ``names`` that indexes of a table have.

        Where each table has index names of its own, nothing is done.
        """

    def source(
        self, types: Sequence[str], rows: Sequence[tuple[Any, ...]], constants: str = ""
    ) -> tuple[str, list[Any]]:
        """The source of an INSERT's rows, each with ``constants`` at its end; parameters.

        ``constants`` is SQL that begins with a comma, or nothing.
        """
        return f"VALUES {tuples(len(types), len(rows), constants)}", flatten(rows)

    def row_list(self, width: int, count: int) -> str:
        """Placeholders for what stands inside ``(a, b) IN (…)``."""
        return "VALUES " + tuples(width, count)

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
        return f"id IN ({placeholders(len(ids))})", [*ids]

    def _as_rows(self, keys: Sequence[tuple[int, ...]]) -> tuple[str, list[Any]]:
        return self.row_list(len(keys[0]), len(keys)), flatten(keys)

    def since(self, moment: datetime, row_id: int) -> tuple[str, list[Any]]:
        """Condition and parameters for rows at this place in the order of their lane, or behind."""
        return "({when}, id) >= (%s, %s)", [self.to_column(moment), row_id]

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

    def is_of_statement(self, cause: BaseException) -> bool:
        """Tell if the server rejects a statement for what it says, whatever its values are.

        A right or a table that is missing is no such thing: somebody may bring it.
        """
        raise NotImplementedError

    def number(self, cause: BaseException) -> str:
        """The number or the state by which the driver's error is told from others; or nothing."""
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
        return NOTHING

    def catch_up(self) -> None:
        """From now on see all that any node had committed before. Call outside a transaction."""


@lru_cache(maxsize=256)
def _quoted(template: str, quoted_x: str) -> str:
    quote = quoted_x[0]
    return template.format(
        task=f"{quote}{Task._meta.db_table}{quote}",
        worker=f"{quote}{WorkerRow._meta.db_table}{quote}",
        pause=f"{quote}{Pause._meta.db_table}{quote}",
        ended_pause=f"{quote}{EndedPause._meta.db_table}{quote}",
        lock=f"{quote}{Lock._meta.db_table}{quote}",
        gate=f"{quote}{Gate._meta.db_table}{quote}",
        minute=f"{quote}{TaskMinute._meta.db_table}{quote}",
        run=f"{quote}{TaskRun._meta.db_table}{quote}",
        when=f"{quote}when{quote}",
        by=f"{quote}by{quote}",
    )


def placeholders(count: int) -> str:
    """``count`` placeholders for an IN list."""
    return ", ".join(["%s"] * count)


@lru_cache(maxsize=64)
def tuples(width: int, count: int, end: str = "") -> str:
    """Placeholders for ``count`` rows of ``width`` values, with ``end`` at the end of each."""
    return ", ".join([f"({placeholders(width)}{end})"] * count)


def flatten(rows: Iterable[Iterable[Any]]) -> list[Any]:
    """The values of all rows, one after the other."""
    return [value for row in rows for value in row]
