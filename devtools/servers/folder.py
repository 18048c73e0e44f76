"""Programs that are fetched: a folder of ours for each, whole or not there, for all checkouts."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from devtools.messages import Problem
from devtools.servers.places import exclusive

NAME = "django-tasks-servers"


def cache() -> Path:
    """The folder that keeps them between runs; servers that root starts can go there too."""
    if os.geteuid() == 0:
        return Path("/var/cache", NAME)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / NAME


def fill(place: Path, fetch: Callable[[Path], None]) -> None:
    """Have a folder filled, unless it is there; one run at a time."""
    former = os.umask(0o022)  # whom root starts a server as must be able to read it
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(place.with_name(f"{place.name}.lock")):
            if not place.exists():
                _fill(place, fetch)
    except OSError as error:
        raise Problem(f"{place} cannot be filled: {error}.") from error
    finally:
        os.umask(former)


def _fill(place: Path, fetch: Callable[[Path], None]) -> None:
    """It gets its name once it is whole: a run that was killed has left it under another one."""
    new = place.with_name(f"{place.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    try:
        fetch(new)
        new.rename(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)
