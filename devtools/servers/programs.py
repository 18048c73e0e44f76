"""Installed programs, on PATH and off it."""

import glob
import locale
import os
import shutil
from pathlib import Path


def find_directory(programs: list[str], patterns: list[str]) -> Path | None:
    """The directory that has the first program, if the others are there or on PATH too."""
    for directory in _directories(programs[0], patterns):
        has_server = os.access(directory / programs[0], os.X_OK)
        if has_server and all(program_path(program, directory) for program in programs):
            return directory
    return None


def _directories(program: str, patterns: list[str]) -> list[Path]:
    """The one on PATH first, then those of the patterns, the newest version first."""
    found = shutil.which(program)
    directories = [Path(found).resolve().parent] if found else []
    for pattern in patterns:
        matches = [Path(match) for match in glob.glob(pattern)]
        directories += sorted(matches, key=_version_in, reverse=True)
    return directories


def _version_in(directory: Path) -> float:
    """15.0 for /usr/lib/postgresql/15/bin, so that 9.6 sorts before 15."""
    try:
        return float(directory.parent.name)
    except ValueError:
        return 0.0


def program_path(program: str, directory: Path) -> str | None:
    return shutil.which(program, path=str(directory)) or shutil.which(program)


def utf8_locale() -> str:
    """C.UTF-8 knows that É is the upper case of é; not every system has it."""
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    return "C.UTF-8"
