"""The databases that the tests run on: names, choices, and URLs of private servers."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from devtools.interruption import undisturbed
from devtools.messages import Problem, say
from devtools.servers.catalogue import FETCHED, SINGLE
from devtools.servers.command import is_running, servers
from devtools.servers.places import RUNTIME
from devtools.setup.venv import left_out

TITLES = {"sqlite": "SQLite", "mariadb": "MariaDB", "mysql": "MySQL", "postgresql": "PostgreSQL"}

# The newest servers, for what touches SQL.
NEWEST = {"mariadb-newest": "MariaDB 11.8", "postgresql-newest": "PostgreSQL 18"}

# The sites of the fault suite, by the database that is needed for them.
SITES = {
    "sqlite": ["sqlite"],
    "mariadb": ["mariadb", "galera"],
    "mysql": ["mysql"],
    "postgresql": ["postgresql", "synchronous standby", "asynchronous standby"],
}


def chosen(variable: str) -> list[str]:
    """The databases that a variable of the environment names; all of them without it.

    Raises Problem for a name that is none of a database.
    """
    known = [*TITLES, *NEWEST]
    names = os.environ.get(variable, " ".join(known)).split()
    for name in names:
        if name not in known:
            raise Problem(f"{variable} names {name}, but there are only {', '.join(known)}.")
    return names


def all_are_required() -> bool:
    """Tell if a database that is left out is a failure."""
    return os.environ.get("REQUIRE_ALL_DATABASES", "0") not in ("", "0")


def why_not(database: str, variable: str) -> str:
    """The reason why the tests do without a database; nothing if they run on it."""
    if database not in chosen(variable):
        return f"{variable} does not name it"
    return left_out().get(database, "")


def there(variable: str, among: Iterable[str] = TITLES) -> list[str]:
    """The databases that the tests run on, also among NEWEST."""
    return [database for database in among if not why_not(database, variable)]


@contextmanager
def private(database: str) -> Iterator[str]:
    """Start the server of a database, unless it runs; give its URL; stop it if it was started."""
    if database == "sqlite":
        RUNTIME.mkdir(parents=True, exist_ok=True)  # nobody else does, if no server was started yet
        yield f"sqlite:///{RUNTIME}/tasks"
        return
    was_running = is_running(database)
    try:
        (url,) = servers("start", database).values()
        yield url
    finally:
        if not was_running:
            with undisturbed():  # a second Ctrl-C must leave no server behind
                _tell_if_dead(database)
                servers("stop", database)


def _tell_if_dead(database: str) -> None:
    """Tell the last words of a server that was started and runs no more: they are removed."""
    server = {**SINGLE, **FETCHED}[database]
    if server.note() and server.process() is None:
        say(f"{server.title} has died: {server.end_of_log()}")
