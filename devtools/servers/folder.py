"""Programs that are fetched: a folder of ours for each, whole or not there, for all checkouts."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from devtools.messages import Problem
from devtools.servers.places import exclusive

NAME = "django-tasks-servers"

OPEN = 0o755  # whatever our umask: servers that root starts run as somebody else


def cache() -> Path:
    """Where they are kept from one run to the next; whom root starts must be able to go there."""
    if os.geteuid() == 0:
        return Path("/var/cache", NAME)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / NAME


def fill(place: Path, fetch: Callable[[Path], None]) -> None:
    """Have a folder filled, unless it is there.

    It gets its name once it is whole: a run that was killed has left it under another one.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.parent.chmod(OPEN)
    except OSError as error:
        raise Problem(f"There is no place for programs: {error}; set XDG_CACHE_HOME.") from error
    new = place.with_name(f"{place.name}.new")
    with exclusive(place.with_name(f"{place.name}.lock")):
        if place.exists():  # another run was faster
            return
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        new.chmod(OPEN)
        try:
            fetch(new)
            new.rename(place)
        finally:
            shutil.rmtree(new, ignore_errors=True)
