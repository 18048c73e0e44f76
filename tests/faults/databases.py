"""The sites where scenarios are played: single servers, clusters, and files on small disks."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from devtools import CHECKOUT
from devtools.servers import command
from devtools.servers.command import servers

# Workers and clients are ordinary users: administrators may write to a read-only server.
PLAIN = "plain"
# The address from which whoever has followed a switchover comes to a server.
NEW_PRIMARY = "127.0.0.2"
# Room for the write-ahead log to grow while a worker is stopped that reads: nobody can empty it
# then, and on a disk that it has filled nobody ever will. It grew by 20 MB a second, and 64 MB were
# too few for a stop of 5.4 s.
DISK = "512m"


class Site(NamedTuple):
    """A database, or several that are one.

    Worker n and client n use address n (round and round), the harness the last one. ``name`` is
    what scenarios and the table call it, ``lease`` the shortest that makes sense there.
    """

    name: str
    urls: tuple[str, ...]
    admin_url: str = ""
    lease: float = 0.0

    @property
    def vendor(self) -> str:
        if self.name == "mysql":  # the addresses of MariaDB begin like those of MySQL
            return self.name
        scheme = urlsplit(self.urls[0]).scheme
        return {"mysql": "mariadb", "postgres": "postgresql"}.get(scheme, scheme)


_MAKE_BOTH = (
    "CREATE USER IF NOT EXISTS plain@'%' IDENTIFIED BY 'plain'",
    "CREATE DATABASE IF NOT EXISTS faults",
    "GRANT ALL ON faults.* TO plain@'%'",
    # From there, the same user is one that may write to a read-only server.
    f"CREATE USER IF NOT EXISTS plain@'{NEW_PRIMARY}' IDENTIFIED BY 'plain'",
    f"GRANT ALL ON faults.* TO plain@'{NEW_PRIMARY}'",
)
_MAKE = {
    "mariadb": (*_MAKE_BOTH, f"GRANT READ ONLY ADMIN ON *.* TO plain@'{NEW_PRIMARY}'"),
    "mysql": (
        *_MAKE_BOTH,
        f"GRANT CONNECTION_ADMIN ON *.* TO plain@'{NEW_PRIMARY}'",
        "GRANT SELECT ON performance_schema.* TO plain@'%'",  # which connections are idle
    ),
    "postgresql": (
        "CREATE ROLE plain LOGIN PASSWORD 'plain'",
        "CREATE DATABASE faults OWNER plain",
    ),
}

_FETCH = """
import sys, django; django.setup()
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute(sys.argv[1]); print(cursor.fetchone()[0])
"""

_EXECUTE = """
import sys, django; django.setup()
from django.db import connection
with connection.cursor() as cursor:
    for statement in sys.argv[1:]: cursor.execute(statement)
"""


@contextmanager
def scratch(url: str, directory: Path) -> Iterator[str]:
    """A database beside the one of ``url`` that is gone afterwards; its address."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        yield f"sqlite:///{directory / 'faults.sqlite3'}"
        return
    name = f"test_faults_{os.getpid()}"
    force = " WITH (FORCE)" if parts.scheme.startswith("postgres") else ""
    execute(url, f"CREATE DATABASE {name}")
    try:
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        execute(url, f"DROP DATABASE {name}{force}")


def execute(url: str, *statements: str) -> None:
    """Statements of an administrator, outside of all transactions."""
    _run(url, _EXECUTE, *statements)


def _run(url: str, program: str, *statements: str) -> str:
    environment = os.environ | {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "tests.faults.settings",
    }
    command = [sys.executable, "-c", program, *statements]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, check=True, text=True, stdout=subprocess.PIPE
    )
    return done.stdout


@contextmanager
def sqlite(directory: Path) -> Iterator[Site]:
    with small_disk(directory / "disk") as disk:
        yield Site("sqlite", (f"sqlite:///{disk / 'tasks.sqlite3'}",))


@contextmanager
def single(name: str) -> Iterator[Site]:
    """One server."""
    (admin_url,) = servers("start", name).values()
    try:
        yield Site(name, (for_plain_user(name, admin_url),), admin_url)
    finally:
        servers("stop", name)


@contextmanager
def galera() -> Iterator[Site]:
    """Three nodes; everybody writes to the one at hand, the harness to any that answers."""
    admin_urls = servers("start", "galera")["GALERA_URLS"].split(",")
    try:
        urls = [with_plain_user(url) for url in admin_urls]
        for_plain_user("mariadb", admin_urls[0])
        # COMMITs wait for a vanished node for evs.suspect_timeout, 5 s.
        yield Site("galera", (*urls, any_of(urls)), admin_urls[0], lease=8.0)
    finally:
        servers("stop", "galera")


@contextmanager
def replica(name: str, *start: str) -> Iterator[Site]:
    """A primary and its standby; everybody looks for the one that takes writes."""
    there = servers("start", *start, "replica")
    admin_urls = [there["REPLICA_PRIMARY_URL"], there["REPLICA_STANDBY_URL"]]
    try:
        for_plain_user("postgresql", admin_urls[0])
        urls = [with_plain_user(url) for url in admin_urls]
        yield Site(name, (any_of(urls),), any_of(admin_urls))
    finally:
        servers("stop", "replica")


Opener = Callable[[Path], AbstractContextManager[Site]]

SITES: dict[str, Opener] = {
    "sqlite": sqlite,
    "mysql": lambda _: single("mysql"),
    "mariadb": lambda _: single("mariadb"),
    "postgresql": lambda _: single("postgresql"),
    "galera": lambda _: galera(),
    "synchronous standby": lambda _: replica("synchronous standby", "--sync"),
    "asynchronous standby": lambda _: replica("asynchronous standby"),
}


def for_plain_user(vendor: str, admin_url: str) -> str:
    """Make a database for an ordinary user; its address."""
    execute(admin_url, *_MAKE[vendor])
    return with_plain_user(admin_url)


def with_plain_user(admin_url: str) -> str:
    parts = urlsplit(admin_url)
    place = f"{PLAIN}:{PLAIN}@{parts.hostname}:{parts.port}"
    return urlunsplit(parts._replace(netloc=place, path="/faults"))


def any_of(urls: Sequence[str]) -> str:
    """One address for several servers; ``settings`` knows what to make of it."""
    hosts = ",".join(f"{urlsplit(url).hostname}:{urlsplit(url).port}" for url in urls)
    return f"{urls[0]}?hosts={hosts}"


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A directory on a small file system of its own, if we may mount one."""
    directory.mkdir()
    if os.geteuid() != 0:
        yield directory
        return
    options = ["-t", "tmpfs", "-o", f"size={DISK}", "tmpfs"]
    subprocess.run(["mount", *options, str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def why_missing(name: str) -> str:
    """The packages that a site needs and has not; nothing if all are there."""
    if name == "sqlite":
        return ""
    return command.why_missing("replica" if name.endswith("standby") else name)


def version_of(site: Site) -> str:
    """The version by which the server, or SQLite's library, names itself."""
    name = {"sqlite": "sqlite_version()"}.get(site.vendor, "version()")
    version = _run(site.urls[0], _FETCH, f"SELECT {name}").strip()
    # "3.40.1", "9.7.4-2", "10.11.19-MariaDB-0+deb12u1", "PostgreSQL 15.18 (Debian ...)"
    return str(re.findall(r"[0-9.]+", version)[0])
