"""The Pythons of this machine."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from devtools.messages import Problem

DESCRIBE = """
import importlib.util, json, os, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "path": os.path.realpath(sys.executable),
    "base": sys.base_prefix,
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
    "has_pip": importlib.util.find_spec("pip") is not None,
    "has_ensurepip": importlib.util.find_spec("ensurepip") is not None,
    "has_mysqlclient": importlib.util.find_spec("MySQLdb") is not None,
}))
"""


@dataclass(frozen=True)
class Python:
    """One Python, as it describes itself."""

    program: str
    version: tuple[int, int, int]
    path: str
    base: str
    headers: bool
    has_pip: bool
    has_ensurepip: bool
    has_mysqlclient: bool

    def debian_package(self, suffix: str) -> str:
        """python3.11-venv and the like; nothing for a Python that is not the system's."""
        major, minor, _ = self.version
        if self.path.startswith("/usr/bin/"):
            return f"python{major}.{minor}-{suffix}"
        return ""


def describe(program: str | Path) -> Python:
    """Ask a Python about itself; raise Problem if it does not run."""
    try:
        done = subprocess.run([program, "-c", DESCRIBE], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Problem(f"{program} does not run; set PYTHON to a Python >= 3.10.") from error
    described = json.loads(done.stdout)
    version = tuple(described.pop("version"))
    return Python(program=str(program), version=version, **described)


def find(version: str) -> str | None:
    """A Python of this version that runs; pyenv puts programs on PATH that do not."""
    return next((program for program in _candidates(version) if _runs(program)), None)


def path_with(versions: Iterable[str]) -> str:
    """A PATH that begins with the programs of this environment and of these Pythons."""
    found = filter(None, map(find, versions))
    places = [sys.prefix + "/bin", *(str(Path(program).parent) for program in found)]
    return os.pathsep.join([*places, os.environ.get("PATH", os.defpath)])


def _candidates(version: str) -> Iterator[str]:
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    installed = (Path.home() / ".pyenv" / "versions").glob(f"{version}*/bin/python{version}")
    yield from map(str, sorted(installed))


def _runs(program: str) -> bool:
    done = subprocess.run([program, "-c", ""], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def chosen(preferred: Iterable[str] = ()) -> str:
    """The program that makes the environment: PYTHON, or a preferred version, or python3."""
    named = os.environ.get("PYTHON")
    return named or next(filter(None, map(find, preferred)), "python3")
