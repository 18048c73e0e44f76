"""A thread's own connections, and the bounds of their waits."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from threading import local
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks.host import interrupts
from django_tasks.host.clocks import pause, ticks
from django_tasks.store.answers import answered, bound_answers, bound_steps, unbound
from django_tasks.store.dialects import Bounds, dialect_of
from django_tasks.store.dialects.mysql import OLDEST_SECONDS

# The name under which a connection keeps the bounds of its sessions.
KEPT = "_django_tasks_bounds"

# CONN_MAX_AGE is meant for requests. Between two runs that follow each other at once a connection
# stays for so long beyond it: with 0, the default, eight busy threads connected to PostgreSQL for
# each task and did 160 tasks a second.
BUSY_SECONDS = 1.0

# In which a thread of ours wants an answer, where nobody says another time.
USUAL_LEASE = 30.0

# How long another thread may be at work on the garbage, in seconds, and how often one looks.
LONGEST_COLLECTION, COLLECTION_PAUSE = 1.0, 0.001

# The bounds of a session that somebody tries out and waits for.
TRIAL = Bounds(lock_wait=5.0, statement=10.0)

# The connections that our threads use, by id. In the child of a fork those threads are gone, and
# MariaDB's client says goodbye to the server for every connection that is collected as garbage: to
# the parent's server, on the parent's connection. So they are held here.
_ours: dict[int, BaseDatabaseWrapper] = {}


class _Blocks:
    """Blocks that were open in a thread which is none of ours, as one of an async run's calls, and
    are forgotten. A generator that hangs in one ends it where it is collected, in whatever thread,
    and may roll back what that thread does then.
    """

    last: object = None  # a mark of the last one


class _Facts:
    """Facts about a thread of ours: its connections, how many wrappers of statements stay on
    them, if it has forgotten a block since a run of it was over, and the last mark that it saw.
    """

    __slots__ = ("connections", "has_forgotten", "seen", "wrappers")

    def __init__(self) -> None:
        self.connections: Sequence[BaseDatabaseWrapper] = ()
        self.wrappers = 0
        self.has_forgotten = False
        self.seen: object = None


class _Own(local):
    """The facts of this thread; an object, for each attribute of a ``local`` is slow to read."""

    def __init__(self) -> None:
        self.facts = _Facts()


_own = _Own()


def take_connection(using: str, bounds: Bounds) -> None:
    """Give this thread a connection of its own to ``using``, whose waits are bounded.

    Call once, at the start of a thread of ours. The connection is not one of a pool: what is set
    for its sessions must not hold for the pool's next user. Nothing is asked of the database yet.
    """
    connection: Any = connections.create_connection(using)
    connection.settings_dict = _own_settings(connection.vendor, connection.settings_dict, bounds)
    setattr(connection, KEPT, bounds)
    connection.connect = partial(_connect, connection)
    bound_answers(connection, bounds.answer)
    connections[using] = _ours[id(connection)] = connection


@contextmanager
def separate_connection(using: str, bounds: Bounds) -> Iterator[None]:
    """Have this thread use a connection of its own meanwhile, as ``take_connection`` makes it.

    For a look in somebody else's thread: the connection that was there before, with its settings
    and its transaction, is left alone. It connects at once, and raises the errors of that: MySQL's
    backend asks a new one for its version, and if it was not open closes it again after that.
    """
    with _in_place_of_the_threads(using, lambda: take_connection(using, bounds)) as own:
        try:
            own.ensure_connection()
            yield
        finally:
            let_go(own)


def trial_session(using: str) -> AbstractContextManager[None]:
    """A session as workers have it, to see if the database takes what sets it up."""
    return separate_connection(using, TRIAL)


class KeptConnections:
    """Separate connections that stay open between their uses: one for each database.

    For a process that looks every few seconds, from a thread of its own each time. To open one
    costs PostgreSQL a process with empty caches, which is most of the time of a short look. Of
    threads that come at once the others open one for themselves. The child of a fork begins with
    none: what its parent has open stays the parent's.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        # ``pop`` and ``setdefault`` of a dict are atomic: no two threads get the same one.
        self._idle: dict[tuple[int, str], BaseDatabaseWrapper] = {}

    @contextmanager
    def separate(self, using: str) -> Iterator[None]:
        """Have this thread use one of them meanwhile, open. After an error it is closed."""
        with _in_place_of_the_threads(using, lambda: self._take(using)) as own:
            try:
                own.ensure_connection()
                yield
            except BaseException:
                let_go(own)
                raise
            if self._idle.setdefault((os.getpid(), using), own) is not own:
                let_go(own)

    def _take(self, using: str) -> None:
        own = self._idle.pop((os.getpid(), using), None)
        if own is None:
            take_connection(using, self._bounds)
            connections[using].inc_thread_sharing()  # another thread will use it
            return
        connections[using] = own
        # The server was started again, or has ended it as idle.
        with answered(own):
            is_dead = own.connection is not None and not own.is_usable()
        if is_dead:
            with suppress(Error):
                own.close()


@contextmanager
def _in_place_of_the_threads(using: str, take: Callable[[], None]) -> Iterator[BaseDatabaseWrapper]:
    before = connections[using]
    take()
    own = connections[using]
    # Those who look at the statements of the thread see these too.
    own.queries_log, own.force_debug_cursor = before.queries_log, before.force_debug_cursor
    try:
        yield own
    finally:
        connections[using] = before


def let_go(own: BaseDatabaseWrapper) -> None:
    """Close a connection that was taken, for good."""
    _ours.pop(id(own), None)
    unbound(own)
    with suppress(Error):
        own.close()


def keep_connection(using: str) -> None:
    """Have this thread's connection usable: call before each cycle.

    A connection that met an error is closed and opened again. Raises the errors of the database.
    """
    connection = connections[using]
    _forget_statements(connection)
    with answered(connection):
        connection.close_if_unusable_or_obsolete()
        connection.ensure_connection()


def drop_connection(using: str) -> None:
    """Close this thread's connection after an error of the server, whatever a ping would say.

    A former primary that is read-only now answers every ping, and after a failover a new
    connection may lead to another server.
    """
    with suppress(Error):
        connections[using].close()


def drop_connections() -> None:
    """Close this thread's connections after an error of a database, whatever a ping would say.

    A former primary that is read-only after a switchover answers each ping, and refuses each write.
    Django itself forgets an error with the rollback that follows it.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            with suppress(Error):
                connection.close()


def abandon_connections(keeping: str | None = None) -> None:
    """Close this thread's connections, whatever they are in the middle of.

    After an interrupt: a driver may owe an answer, and Django may have been between two steps at
    the beginning or the end of a block of a handler, which it then takes for open. ``keeping`` is
    the database on which the caller has a transaction, the outermost block: that is rolled back,
    and ends when it is left.
    """
    for connection in connections.all(initialized_only=True):
        is_kept = connection.alias == keeping
        if connection.savepoint_ids or (connection.in_atomic_block and not is_kept):
            _forgot_block()
        connection.savepoint_ids = []
        del connection.atomic_blocks[int(is_kept) :]
        if not is_kept:
            connection.in_atomic_block = connection.closed_in_transaction = False
        with suppress(Exception):  # a driver's own, in a state that it does not know
            connection.close()


def _forgot_block() -> None:
    if (mine := _own.facts).connections:
        mine.has_forgotten = True
    else:
        _Blocks.last = object()


def open_blocks(using: str) -> int:
    """The number of ``atomic()`` blocks that are open inside this thread's transaction."""
    return len(connections[using].savepoint_ids)


def close_blocks(number: int, *, using: str) -> bool:
    """Forget the blocks beyond ``number`` inside this thread's transaction; False if none are open.

    Django ends the innermost block where the outermost one is left, and would commit nothing and
    say nothing. The transaction is to be rolled back: the caller raises.
    """
    connection = connections[using]
    left = len(connection.savepoint_ids) - number
    if left <= 0:
        return False
    del connection.savepoint_ids[-left:], connection.atomic_blocks[-left:]
    _forgot_block()
    return True


def is_open(connection: BaseDatabaseWrapper) -> bool:
    """Tell if a transaction is open, or begins with the next statement, where autocommit is off."""
    is_left_off = connection.connection is not None and connection.settings_dict["AUTOCOMMIT"]
    return connection.in_atomic_block or bool(is_left_off)


def leave_transactions(
    connections: Sequence[BaseDatabaseWrapper] | None = None, *, is_over: bool = True
) -> list[str]:
    """Roll back what a run has left open on this thread's connections; returns their databases.

    Django would close such a connection, keep it as dead, and never open it again. A generator that
    hangs in an ``atomic()`` ends it where it is collected: here, and not in a run that comes later.
    Where a run is not ``is_over``, its exception may keep it: so there the thread looks once more,
    for blocks of a thread of an async run too. Without ``connections``: those of a thread of ours;
    another one is left alone.
    """
    mine = _own.facts
    own = mine.connections if connections is None else connections
    left: list[str] = []
    wrappers = 0
    for each in own:  # a plain loop: all runs come by
        wrappers += len(each.execute_wrappers)
        is_used = each.connection is not None or each.in_atomic_block
        if is_used and not each.autocommit and is_open(each):
            left.append(each.alias)
    has_forgotten = mine.has_forgotten or mine.seen is not _Blocks.last
    if left or (is_over and mine.connections and has_forgotten):
        abandon_connections()
        if is_over:
            mine.has_forgotten, mine.seen = False, _Blocks.last
        _collect()
        abandon_connections()
    if connections is None and wrappers > mine.wrappers:
        _collect()  # a generator may hang in an ``execute_wrapper()``; others are meant to stay
        if is_over:
            mine.wrappers = sum(len(each.execute_wrappers) for each in own)
    return left


def _collect() -> None:
    """Collect the garbage. Python does nothing where another thread is just doing so, which may
    have begun before ours was garbage: as long as not even this circle is found, once more.
    """
    end = ticks() + LONGEST_COLLECTION
    while ticks() < end:
        circle: list[Any] = []
        circle.append(circle)
        del circle
        if gc.collect():
            return
        pause(COLLECTION_PAUSE)


@contextmanager
def whole_statements() -> Iterator[None]:
    """Have the interrupt of this thread come after a statement and not into it, on MySQL.

    Its driver would answer with an error of its own (2014, commands out of sync) in the clean-up,
    in place of the interrupt. A statement that waits is not cut short by this: an interrupt comes
    when the driver returns.
    """
    guarded = _made()
    for connection in guarded:
        connection.execute_wrappers.append(_as_a_whole)
    try:
        yield
    finally:
        for connection in guarded:
            with suppress(ValueError):  # somebody has emptied the list
                connection.execute_wrappers.remove(_as_a_whole)


def error_classes() -> tuple[type[Exception], ...]:
    """Django's database errors, and those of the drivers of this thread, which Django lets through
    where a cursor is closed.
    """
    drivers = [getattr(each, "Database", None) for each in connections.all(initialized_only=True)]
    return (Error, *(driver.Error for driver in drivers if driver is not None))


def _as_a_whole(
    execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
) -> Any:
    if context["connection"].vendor != "mysql":
        return execute(sql, params, many, context)
    return interrupts.whole(execute, sql, params, many, context)


def own_connections(lease: float = USUAL_LEASE) -> list[BaseDatabaseWrapper]:
    """This thread's connections to all databases, open or not: from now on it is one of ours.

    What the package asks on them between the project's own statements has an answer within
    ``lease`` seconds, or fails. One that cannot even be made (its driver is not installed here) is
    left out: nobody can use it.
    """
    mine = _own.facts
    own = mine.connections = _made()
    mine.seen = _Blocks.last  # what was forgotten before is no run's of this thread
    for connection in own:
        bound_steps(connection, lease)
    _ours.update((id(connection), connection) for connection in own)
    return own


def _made() -> list[BaseDatabaseWrapper]:
    made = []
    for alias in connections:
        with suppress(Exception):
            made.append(connections[alias])
    return made


def is_touched() -> bool:
    """Tell if this thread of ours may have something to leave or to tidy, after a run that ended.

    Most runs of a drain use no database, and three looks took as long as the handler's call.
    """
    mine = _own.facts
    if mine.has_forgotten or mine.seen is not _Blocks.last:
        return True
    for each in mine.connections:
        if each.connection is not None or each.in_atomic_block:
            return True
        if each.execute_wrappers or each.queries_log:
            return True
    return False


def tidy(connections: Sequence[BaseDatabaseWrapper], *, is_busy: bool) -> None:
    """Close what is broken or too old, as Django does between two requests.

    ``is_busy``: this thread goes on at once.
    """
    for connection in connections:
        # A driver may complain when a broken connection is closed. It is closed all the same; the
        # thread must not end over it, nor the end of the run be lost.
        with suppress(Error):
            _tidy_one(connection, BUSY_SECONDS if is_busy else 0.0)


def _tidy_one(connection: BaseDatabaseWrapper, grace: float) -> None:
    _forget_statements(connection)
    close_at = connection.close_at
    if close_at is not None:
        connection.close_at = close_at + grace
    try:
        with answered(connection, is_first=True):
            connection.close_if_unusable_or_obsolete()
    finally:
        connection.close_at = close_at


def _forget_statements(connection: Any) -> None:
    """Drop the texts that Django keeps with DEBUG, 9,000 of them, as it does between two requests.

    Not where somebody looks at them, as ``CaptureQueriesContext`` does.
    """
    if connection.queries_log and not connection.force_debug_cursor:
        connection.queries_log.clear()


def close_connections() -> None:
    """Close what this thread has opened, and roll back what is left open on it."""
    made = connections.all(initialized_only=True)
    leave_transactions(made)
    for connection in made:
        _ours.pop(id(connection), None)
        unbound(connection)
    connections.close_all()


def _connect(connection: Any) -> None:
    """Connect in place of the connection's own method, and set what a session of ours needs.

    Django connects in more places than we do: after a failed health check, inside ``cursor()``. And
    a project's receivers of ``connection_created`` set bounds, too: ours come after them. A session
    that did not get so far, because one of them has raised, must not be used.
    """
    try:
        with answered(connection):
            type(connection).connect(connection)
        dialect = dialect_of(connection.alias)
        dialect.bound(getattr(connection, KEPT))
        dialect.catch_up()  # with what was written through another node
    except BaseException:
        connection.close()
        raise


def _own_settings(vendor: str, settings: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    """Settings of a connection of our own. The first statements of a session are bounded by them
    on SQLite; for the network, what the project has set itself stands.
    """
    age = settings["CONN_MAX_AGE"] or None  # 0 is meant for requests: a cycle is none
    if vendor == "mysql":
        age = min(age or OLDEST_SECONDS, OLDEST_SECONDS)
    if vendor == "sqlite":
        options = {**settings["OPTIONS"], "timeout": bounds.lock_wait}
    else:
        options = {**_network_bounds(vendor, bounds), **settings["OPTIONS"]}
        options.pop("pool", None)
    return {**settings, "CONN_MAX_AGE": age, "OPTIONS": options}


def _network_bounds(vendor: str, bounds: Bounds) -> dict[str, Any]:
    """Bounds for a server that is gone without a word: no answer comes, and no error either."""
    connect = max(2, int(bounds.lock_wait))
    answer = bounds.answer
    if vendor == "postgresql":
        return {
            "connect_timeout": connect,
            # Bounds the wait for what was sent. A server that has taken a statement and dies then
            # owes nothing but the answer: only probes find out, two hours later by default.
            "tcp_user_timeout": 1000 * answer,
            "keepalives_idle": max(1, answer // 2),
            "keepalives_interval": max(1, answer // 4),
            "keepalives_count": 3,
        }
    if vendor == "mysql":
        return {"connect_timeout": connect, "read_timeout": answer, "write_timeout": answer}
    return {}
