"""The address of a database: one URL, and what drivers and Django make of it."""

import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit

VENDORS = {"sqlite": "sqlite", "mysql": "mariadb", "postgres": "postgresql", "redis": "redis"}

# As docs/understand/databases.rst asks of our users, and for every contender alike.
SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
SQLITE_TIMEOUT = 20


class Address(NamedTuple):
    vendor: str
    host: str
    port: int
    user: str
    password: str
    name: str  # of a server's database, or the path of SQLite's file


def parse(url: str) -> Address:
    parts = urlsplit(url)
    vendor = VENDORS[parts.scheme]
    name = parts.path if vendor == "sqlite" else parts.path.lstrip("/")
    return Address(
        vendor,
        parts.hostname or "",
        parts.port or 0,
        parts.username or "",
        parts.password or "",
        name,
    )


def connect(url: str) -> Any:
    """A connection of the raw driver, in autocommit."""
    address = parse(url)
    if address.vendor == "sqlite":
        import sqlite3

        connection = sqlite3.connect(address.name, timeout=SQLITE_TIMEOUT, isolation_level=None)
        connection.executescript(SQLITE_PRAGMAS)
        return connection
    where: dict[str, Any] = {"host": address.host, "port": address.port, "user": address.user}
    where["password"] = address.password
    if address.vendor == "mariadb":
        import MySQLdb
        from MySQLdb.constants import CLIENT

        # As Django connects: matched rows are counted, READ COMMITTED.
        connection = MySQLdb.connect(
            **where, database=address.name, client_flag=CLIENT.FOUND_ROWS, autocommit=True
        )
        connection.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connection
    import psycopg

    return psycopg.connect(**where, dbname=address.name, autocommit=True)


def redis_command(url: str, command: str) -> str:
    """The answer of a Redis server to a command without blanks in its arguments."""
    address = parse(url)
    with socket.create_connection((address.host, address.port), timeout=10) as connection:
        connection.sendall(f"{command}\r\n".encode())
        answer = connection.recv(65536).decode()
        while answer.startswith("$") and not answer.endswith("\r\n"):
            answer += connection.recv(65536).decode()
    return answer.removesuffix("\r\n")


def django_database(url: str) -> dict[str, Any]:
    """An entry of DATABASES."""
    address = parse(url)
    if address.vendor == "sqlite":
        options = {
            "timeout": SQLITE_TIMEOUT,
            "transaction_mode": "IMMEDIATE",
            "init_command": SQLITE_PRAGMAS,
        }
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": address.name,
            "OPTIONS": options,
        }
    engine = {"mariadb": "mysql", "postgresql": "postgresql"}[address.vendor]
    return {
        "ENGINE": f"django.db.backends.{engine}",
        "NAME": address.name,
        "HOST": address.host,
        "PORT": address.port,
        "USER": address.user,
        "PASSWORD": address.password,
    }
