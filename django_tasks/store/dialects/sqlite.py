"""SQLite: one writer at a time, a clock that is the host's, errors by result code."""

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from django_tasks.clock import ClockReading
from django_tasks.host.clocks import utc_now
from django_tasks.store.dialects.base import Bounds, Dialect, placeholders

# Python 3.10 tells no result codes.
_SQLITE_WORLD = re.compile("disk|readonly|read-only|unable to open|malformed|not a database|I/O")
_SQLITE_STATEMENT = re.compile(
    "syntax error|no such (column|function|collation|module|index)|has no column named|misuse of"
    "|unrecognized token|incomplete input|ambiguous column|wrong number of arguments"
    "|too many (terms|SQL variables|columns|arguments)|sub-select returns|values for|same number of"
)


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

    def give_up_index_names(self, table: str, names: Sequence[str], ending: str) -> None:
        # An index cannot be renamed. Those of constraints have no text, and names of their own.
        found = self.fetch(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
            f" AND tbl_name = %s AND name IN ({placeholders(len(names))})",
            [table, *names],
        )
        with self.connection.cursor() as cursor:
            for name, text in found:
                cursor.execute(f"DROP INDEX {self.connection.ops.quote_name(name)}")
                cursor.execute(text.replace(name, name + ending, 1))

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

    def is_of_statement(self, cause: BaseException) -> bool:
        # Its number, 1, is that of a table that is missing as well.
        return _sqlite_code(cause) in (1, None) and bool(_SQLITE_STATEMENT.search(str(cause)))

    def number(self, cause: BaseException) -> str:
        return str(_sqlite_code(cause) or "")


def _sqlite_code(cause: BaseException) -> int | None:
    code = getattr(cause, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
