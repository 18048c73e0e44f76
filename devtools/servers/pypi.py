"""Packages of PyPI in a folder."""

import subprocess
import sys
from pathlib import Path

from devtools import CHECKOUT
from devtools.messages import Problem
from devtools.servers.versions import Wanted


def unpack(wanted: Wanted, folder: Path) -> None:
    """Download the tested version, if it is one of the files that were, and unpack it."""
    (name,) = wanted.packages
    hashes = "".join(f" --hash=sha256:{digest}" for digest in wanted.sha256)
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{name}=={wanted.tested}{hashes}\n", encoding="utf-8")
    command = [_python(), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    command += ["--only-binary=:all:", f"--target={folder}", f"--requirement={requirements}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise Problem(f"{name} {wanted.tested} is not to be had from PyPI: {reason}")


def _python() -> str:
    """A Python that has pip: Debian's own comes without."""
    for python in (sys.executable, str(CHECKOUT / ".venv" / "bin" / "python")):
        if _has_pip(python):
            return python
    raise Problem("There is no pip to ask PyPI with: scripts/setup test brings it.")


def _has_pip(python: str) -> bool:
    try:
        done = subprocess.run([python, "-m", "pip", "--version"], capture_output=True)
    except OSError:
        return False
    return done.returncode == 0
