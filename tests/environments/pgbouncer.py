"""A PgBouncer of our own, in front of the PostgreSQL of this test run."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import DEADLINE, eventually

# A user's PATH may lack the last one, where Debian has it.
PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
WHY_MISSING = "there is no pgbouncer; on Debian: apt-get install pgbouncer"

CONFIGURATION = """\
[databases]
* = host={server[HOST]} port={server[PORT]}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
pool_mode = {mode}
default_pool_size = {size}
logfile = {directory}/log
"""


@contextmanager
def pgbouncer(
    server: dict[str, Any], mode: str = "transaction", size: int = 1
) -> Iterator[dict[str, Any]]:
    """Run a PgBouncer; yields Django's settings of ``server`` as they lead through it.

    ``size`` is how many sessions of the server all connections share.
    """
    assert PROGRAM, WHY_MISSING
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as name:
        directory = Path(name)
        (directory / "users").write_text('"{USER}" "{PASSWORD}"\n'.format(**server))
        values = {"server": server, "port": port, "directory": name, "mode": mode, "size": size}
        (directory / "ini").write_text(CONFIGURATION.format(**values))
        with running([PROGRAM, "--quiet", f"{name}/ini"], directory) as process:
            eventually(
                lambda: process.poll() is not None or is_listening(port),
                "PgBouncer listens",
                log=lambda: log_of(directory),
            )
            assert process.poll() is None, log_of(directory)
            yield {**server, "HOST": "127.0.0.1", "PORT": str(port)}


@contextmanager
def running(command: list[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with the ``with``; as nobody where we are root, which it refuses."""
    options: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        options = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        for path in (directory, *directory.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(DEADLINE)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port: int = place.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def log_of(directory: Path) -> str:
    log = directory / "log"
    return log.read_text() if log.exists() else "it has written no log"
