"""One database in memory, and sessions that can wait, be cut, and be lost.

All sessions share one connection of SQLite. A transaction is alone: others wait until it ends, and
not for longer than their bound. So transactions are serial, as SQLite's are, and as those of the
servers are in effect wherever the locks are right; autocommitted statements come between.

A statement gives its turn away twice: on its way to the database, and its answer on the way back.
"""

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.simulated_cluster import stage
from tests.simulated_cluster.hosts import BEGINNING, current
from tests.simulated_cluster.scheduler import Actor

# Result codes of SQLite by which the product tells errors apart.
BUSY, READONLY, IO_ERROR = 5, 8, 10
WRITES = ("INSERT", "UPDATE", "DELETE", "WITH", "BEGIN", "REPLACE")

Row = tuple[Any, ...]


def error(text: str, code: int) -> sqlite3.OperationalError:
    """An error of the driver."""
    made = sqlite3.OperationalError(text)
    made.sqlite_errorcode = code
    return made


class Answer:
    """The answer to a statement."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.description = cursor.description
        self.rows: list[Row] = cursor.fetchall() if cursor.description else []
        self.count = cursor.rowcount
        if self.count < 0 and cursor.description is None:
            # The driver counts no rows of a statement that begins with WITH.
            (self.count,) = cursor.connection.execute("SELECT changes()").fetchone()
        self.lastrowid = cursor.lastrowid


class Database:
    """The database, its clock, and the session whose transaction is open."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        raw.create_function("simulated_now", 0, lambda: self.now().isoformat(" "))
        # Seconds by which its clock differs from simulated time, and by which it ever has.
        self.offset = 0.0
        self.offsets = [0.0]
        self.down_until = 0.0
        self.holder: Session | None = None
        self.sessions: list[Session] = []
        self._waiting: list[Actor] = []

    def now(self) -> datetime:
        """The database's clock, without a zone, in UTC."""
        moment = BEGINNING + timedelta(seconds=stage.scheduler.now + self.offset)
        return moment.replace(tzinfo=None)

    def set_clock(self, offset: float) -> None:
        self.offset = offset
        self.offsets.append(offset)

    @property
    def is_down(self) -> bool:
        return stage.scheduler.now < self.down_until

    def take(self, session: "Session") -> None:
        """Wait until no other transaction is open. Raises what a session hears that waits long."""
        until = stage.scheduler.now + session.lock_wait
        while self.holder not in (None, session):
            actor = current()
            self._waiting.append(actor)
            was_woken = stage.scheduler.park(until)
            if not was_woken:
                self._waiting.remove(actor)
                raise error("database is locked", BUSY)
            session.check()

    def free(self, session: "Session") -> None:
        """Let the next ones have their turn: in an order of the seed."""
        if self.holder is session:
            self.holder = None
            waiting, self._waiting = self._waiting, []
            for actor in waiting:
                stage.scheduler.wake(actor, stage.choices.between(0.0, 0.001))

    def lose(self, session: "Session") -> None:
        """A session is gone, and what it has not committed with it."""
        session.is_lost = True
        if self.holder is session:
            self.raw.execute("ROLLBACK")
            self.free(session)
        if session in self.sessions:
            self.sessions.remove(session)

    def lose_sessions(self, pid: int | None = None) -> None:
        """All sessions are gone, or those of one process."""
        for session in list(self.sessions):
            if pid is None or session.host.pid == pid:
                self.lose(session)

    def look(self, sql: str) -> list[Row] | None:
        """Read what is committed, past all faults; None while a transaction is open."""
        return None if self.holder else self.raw.execute(sql).fetchall()

    def look_at_end(self, sql: str) -> list[Row]:
        """The same when nobody will go on any more."""
        if self.holder is not None:
            self.lose(self.holder)
        return self.raw.execute(sql).fetchall()


class Session:
    """A session: what Django takes for the driver's connection."""

    isolation_level: str | None = None  # Django sets it

    def __init__(self, database: Database) -> None:
        self.host = current().host
        self.lock_wait = 5.0
        # How long the network may be silent before the driver gives up.
        self.patience = 60.0
        self.is_lost = False
        # The former primary after a switchover: it answers, and takes no writes.
        self.is_read_only = False
        self._database = database
        self._weather = stage.weather
        self._weather.before_connecting(self)
        if database.is_down:
            raise error("disk I/O error: connection refused", IO_ERROR)
        database.sessions.append(self)

    @property
    def in_transaction(self) -> bool:
        return self._database.holder is self

    def check(self) -> None:
        if self.is_lost:
            raise error("disk I/O error: the session is gone", IO_ERROR)

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Answer:
        """Send a statement and wait for the answer."""
        self.check()
        self._weather.on_the_way(self, sql)
        self.check()
        database = self._database
        if self.is_read_only and sql.startswith(WRITES):
            raise error("attempt to write a readonly database", READONLY)
        database.take(self)
        self.check()
        answer = Answer(database.raw.execute(sql, params))
        if sql.startswith("BEGIN"):
            database.holder = self
        stage.journal.step(sql, params, answer)
        self._weather.on_the_way_back(self, sql)
        self.check()
        current().meet()  # what was left with the thread comes when the driver returns
        return answer

    def commit(self) -> None:
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def _end(self, sql: str) -> None:
        self.check()
        if not self.in_transaction:
            return
        self._weather.on_the_way(self, sql)
        self.check()
        self._database.raw.execute(sql)
        self._database.free(self)
        stage.journal.step(sql, (), None)
        self._weather.on_the_way_back(self, sql)
        self.check()
        current().meet()

    def give_up(self) -> None:
        """The server has rolled the transaction back, and the session lives on."""
        self._database.raw.execute("ROLLBACK")
        self._database.free(self)

    def close(self) -> None:
        self._database.lose(self)

    def cursor(self) -> "Cursor":
        return Cursor(self)


class Cursor:
    """A cursor as Django uses it. Rows are there as soon as the statement is answered."""

    arraysize = 100

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows: list[Row] = []
        self._next = 0
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    def execute(self, sql: str, params: Sequence[Any] | None = None) -> "Cursor":
        answer = self._session.execute(*_translated(sql, params))
        self._rows, self._next = answer.rows, 0
        self.description, self.rowcount = answer.description, answer.count
        self.lastrowid = answer.lastrowid
        return self

    def executemany(self, sql: str, many: Sequence[Sequence[Any]]) -> "Cursor":
        for params in many:
            self.execute(sql, params)
        return self

    def fetchone(self) -> Row | None:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = arraysize) -> list[Row]:
        rows = self._rows[self._next : self._next + size]
        self._next += len(rows)
        return rows

    def fetchall(self) -> list[Row]:
        return self.fetchmany(len(self._rows))

    def close(self) -> None:
        self._rows = []


_known: dict[str, str] = {}


def _translated(sql: str, params: Sequence[Any] | None) -> tuple[str, Sequence[Any]]:
    """Django's placeholders as SQLite's."""
    if params is None:
        return sql, ()
    if sql not in _known:
        _known[sql] = sql.replace("%s", "?").replace("%%", "%")
    return _known[sql], params
