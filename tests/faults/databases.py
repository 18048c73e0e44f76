"""Databases for scenarios: small disks for SQLite, an ordinary user on the servers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

CHECKOUT = Path(__file__).resolve().parents[2]

# Workers and clients are ordinary users: administrators may write to a read-only server.
PLAIN = "plain"
DISK = "24m"

_MAKE = {
    "mysql": (
        "CREATE USER IF NOT EXISTS plain@'%' IDENTIFIED BY 'plain'",
        "CREATE DATABASE IF NOT EXISTS faults",
        "GRANT ALL ON faults.* TO plain@'%'",
    ),
    "postgres": (
        "CREATE ROLE plain LOGIN PASSWORD 'plain'",
        "CREATE DATABASE faults OWNER plain",
    ),
}

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
    environment = os.environ | {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "tests.faults.settings",
    }
    command = [sys.executable, "-c", _EXECUTE, *statements]
    subprocess.run(command, cwd=CHECKOUT, env=environment, check=True)


def for_plain_user(admin_url: str) -> str:
    """Make a database for an ordinary user; its address."""
    parts = urlsplit(admin_url)
    execute(admin_url, *_MAKE[parts.scheme])
    place = f"{PLAIN}:{PLAIN}@{parts.hostname}:{parts.port}"
    return urlunsplit(parts._replace(netloc=place, path="/faults"))


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


def versions() -> str:
    """Of everything that the numbers depend on, except the servers."""
    import platform
    import sqlite3

    import django

    return (
        f"Python {platform.python_version()}, Django {django.__version__},"
        f" SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores"
    )
