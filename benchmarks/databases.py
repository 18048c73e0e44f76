"""The servers of a run, and an empty database on one of them for each measurement."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from benchmarks.address import connect, parse, redis_command
from benchmarks.processes import wait_until
from devtools.servers.catalogue import SINGLE
from devtools.servers.command import servers

NAME = "benchmark"
_VERSION = {"sqlite": "SELECT sqlite_version()"}


@contextmanager
def started(names: list[str], directory: Path) -> Iterator[dict[str, str]]:
    """Private servers; their addresses by name. SQLite is a file in ``directory``."""
    os.environ["SERVERS_DIR"] = str(directory / "servers")
    urls = {"sqlite": f"sqlite:{directory / 'tasks.sqlite3'}"}
    served = [name for name in names if name in SINGLE]
    with ExitStack() as stack:
        if served:
            stack.callback(servers, "stop", *served)
        for name in served:
            (urls[name],) = servers("start", name).values()
        if "redis" in names and (program := _redis_program()):
            urls["redis"] = stack.enter_context(_redis(program, directory / "redis"))
        yield {name: urls[name] for name in names if name in urls}


@contextmanager
def _redis(program: str, directory: Path) -> Iterator[str]:
    """A server that writes down what it is told, every second: the common way to keep a queue."""
    directory.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"bind": "127.0.0.1", "dir": directory, "appendonly": "yes", "save": ""}
    options = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
    command = ["redis-server", "--port", str(port), *options]
    server = subprocess.Popen(
        command, executable=program, stdout=subprocess.DEVNULL, start_new_session=True
    )
    url = f"redis://127.0.0.1:{port}/0"
    try:
        wait_until(lambda: _answers(url), 10)
        yield url
    finally:
        server.terminate()
        server.wait()


def _redis_program() -> str | None:
    """Debian's redis-tools, which brings no service, has the server under another name.

    The program goes by the name that it is called by.
    """
    return shutil.which("redis-server") or shutil.which("redis-check-rdb")


def _answers(url: str) -> bool:
    try:
        return redis_command(url, "PING") == "+PONG"
    except OSError:
        return False


def emptied(url: str) -> str:
    """The address of a database with nothing in it; whatever was there is gone."""
    address = parse(url)
    if address.vendor == "redis":
        redis_command(url, "FLUSHALL")
        return url
    if address.vendor == "sqlite":
        for suffix in ("", "-wal", "-shm"):
            Path(address.name + suffix).unlink(missing_ok=True)
        return url
    connection = connect(url)
    cursor = connection.cursor()
    force = " WITH (FORCE)" if address.vendor == "postgresql" else ""
    cursor.execute(f"DROP DATABASE IF EXISTS {NAME}{force}")
    cursor.execute(f"CREATE DATABASE {NAME}")
    connection.close()
    return urlunsplit(urlsplit(url)._replace(path=f"/{NAME}"))


def version(url: str) -> str:
    if parse(url).vendor == "redis":
        text = redis_command(url, "INFO server")
        return text.partition("redis_version:")[2].split()[0]
    connection = connect(url)
    cursor = connection.cursor()
    cursor.execute(_VERSION.get(parse(url).vendor, "SELECT version()"))
    (text,) = cursor.fetchone()
    connection.close()
    # "3.40.1", "10.11.19-MariaDB-0+deb12u1", "PostgreSQL 15.18 (Debian ...)"
    return str(text).removeprefix("PostgreSQL ").split()[0].split("-")[0]
