"""Directories and locks: one runtime directory for everything that is kept."""

import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devtools import CHECKOUT
from devtools.servers.users import run_as

RUNTIME = Path(os.environ.get("SERVERS_DIR") or CHECKOUT / ".servers").absolute()

SOCKET_PATH_BYTES = 107  # the kernel's limit for the path of a unix socket


def make_directory(name: str, user: str) -> Path:
    """An empty directory for one server, in the runtime directory where the user can reach it."""
    directory = RUNTIME / name
    longest = len(os.fsencode(directory / "socket"))
    if _is_reachable(RUNTIME, user) and longest <= SOCKET_PATH_BYTES:
        if directory.exists():
            shutil.rmtree(directory)  # left by a start that was killed before it took a note
        directory.mkdir(mode=0o700)
    else:
        # /var/tmp and not /tmp, which may be in memory, where a sync to disk costs nothing.
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/var/tmp"))
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        os.chown(directory, entry.pw_uid, entry.pw_gid)
    return directory


def _is_reachable(directory: Path, user: str) -> bool:
    """Tell if the user may pass through the directory and all above it."""
    command = ["test", "-x", str(directory)]
    return subprocess.run(command, cwd="/", **run_as(user)).returncode == 0


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One command at a time for all that goes by this name."""
    (RUNTIME / "logs").mkdir(parents=True, exist_ok=True)
    with exclusive(RUNTIME / f"{name}.lock"):
        yield


@contextmanager
def exclusive(file: Path) -> Iterator[None]:
    """One process at a time; the others wait."""
    with open(file, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
