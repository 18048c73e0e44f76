"""The few things that the databases spell differently when they make rows by themselves."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Dialect:
    """Expressions about a moment, ``base``, from which all times are counted in seconds."""

    base: datetime

    def numbers(self, first: int, last: int) -> str:
        """A table with a column ``id``: all whole numbers of a range."""
        raise NotImplementedError

    def at(self, seconds: str) -> str:
        """The moment so many seconds after the base; before it if they are negative."""
        raise NotImplementedError

    def joined(self, *texts: str) -> str:
        return f"CONCAT({', '.join(texts)})"

    def padded(self, number: str) -> str:
        """A number of nine digits, as a text."""
        return f"LPAD(CAST({number} AS CHAR(9)), 9, '0')"

    def json(self, text: str) -> str:
        return text


class SQLite(Dialect):
    def numbers(self, first: int, last: int) -> str:
        count = f"SELECT {first} AS id UNION ALL SELECT id + 1 FROM counted WHERE id < {last}"
        return f"(WITH RECURSIVE counted AS ({count}) SELECT id FROM counted)"

    def at(self, seconds: str) -> str:
        # Django writes microseconds.
        moment = f"{self.base.timestamp():.0f} + ({seconds}), 'unixepoch'"
        return f"strftime('%Y-%m-%d %H:%M:%f', {moment}) || '000'"

    def joined(self, *texts: str) -> str:
        return f"({' || '.join(texts)})"

    def padded(self, number: str) -> str:
        return f"printf('%09d', {number})"


class MySQL(Dialect):
    """MySQL, and MariaDB."""

    def numbers(self, first: int, last: int) -> str:
        # By thousands: a recursion may be a thousand deep.
        most = last - first
        count = "SELECT 0 AS n UNION ALL SELECT n + 1 FROM digit WHERE n < 999"
        return (
            f"(WITH RECURSIVE digit AS ({count})"
            f" SELECT {first} + high.n * 1000 + low.n AS id FROM digit AS high, digit AS low"
            f" WHERE high.n <= {most // 1000} AND high.n * 1000 + low.n <= {most})"
        )

    def at(self, seconds: str) -> str:
        return f"(TIMESTAMP'{self.base:%Y-%m-%d %H:%M:%S}' + INTERVAL ({seconds}) SECOND)"


class PostgreSQL(Dialect):
    def numbers(self, first: int, last: int) -> str:
        return f"(SELECT id FROM generate_series({first}::bigint, {last}::bigint) AS id)"

    def at(self, seconds: str) -> str:
        base = f"TIMESTAMPTZ '{self.base:%Y-%m-%d %H:%M:%S}+00'"
        return f"({base} + ({seconds}) * INTERVAL '1 second')"

    def json(self, text: str) -> str:
        return f"CAST({text} AS jsonb)"


DIALECTS: dict[str, type[Dialect]] = {
    "sqlite": SQLite,
    "mysql": MySQL,
    "postgresql": PostgreSQL,
}
