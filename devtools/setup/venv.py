"""The virtual environment of the checkout, and the Python packages in it."""

import hashlib
import json
import os
import shutil
import subprocess

from devtools import CHECKOUT
from devtools.messages import Problem, say
from devtools.setup.python import Python, describe

VENV = CHECKOUT / (os.environ.get("VENV") or ".venv")
PROGRAM = VENV / "bin" / "python"
LEFT_OUT = VENV / "left-out.json"

# The first pip that knows dependency groups.
PIP = "pip>=25.1"


def is_usable(python: Python) -> bool:
    """Tell if there is an environment, with pip, of this very Python."""
    existing = _existing()
    if existing is None:
        return False
    same = existing.version == python.version and existing.base == python.base
    return same and existing.has_pip


def has_mysqlclient(python: Python) -> bool:
    existing = _existing()
    return is_usable(python) and existing is not None and existing.has_mysqlclient


def has_uwsgi(python: Python) -> bool:
    return is_usable(python) and (VENV / "bin" / "uwsgi").exists()


def _existing() -> Python | None:
    if not os.access(PROGRAM, os.X_OK):
        return None
    try:
        return describe(PROGRAM)
    except Problem:
        return None  # its Python has been removed


def make(python: Python) -> None:
    """Make the environment, unless it is there; raise Problem if that fails."""
    if is_usable(python):
        return
    if VENV.exists():
        if any(VENV.iterdir()) and not (VENV / "pyvenv.cfg").exists():
            raise Problem(f"{VENV} exists and is not a virtual environment.")
        shutil.rmtree(VENV)
    say(f"Making {VENV.name} with {python.path}.")
    if subprocess.run([python.program, "-m", "venv", VENV], check=False).returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        raise Problem(f"{python.program} could not make the environment {VENV}.")


def install(name: str, python: Python, groups: list[str], extras: list[str]) -> None:
    """Install the project with these, unless nothing has changed; raise Problem if that fails."""
    arguments = ["--editable", f".[{','.join(extras)}]" if extras else "."]
    for group in groups:
        arguments += ["--group", group]
    stamp = VENV / f"setup-{name}"
    wanted = _fingerprint(python, arguments)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    say(f"Installing into {VENV.name}: {' '.join(arguments[1:])}")
    if not (_pip(PIP) and _pip(*arguments)):
        raise Problem(f"pip could not install what {name} needs.")
    stamp.write_text(wanted, encoding="utf-8")


def _fingerprint(python: Python, arguments: list[str]) -> str:
    """The things an installation depends on; the same again, and there is nothing to do."""
    parts = [json.dumps([python.version, python.path, str(CHECKOUT), arguments]).encode()]
    parts += [(CHECKOUT / name).read_bytes() for name in ("setup.cfg", "pyproject.toml")]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _pip(*arguments: str) -> bool:
    command = [str(PROGRAM), "-m", "pip", "install", "--quiet", *arguments]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, cwd=CHECKOUT, env=environment, check=False).returncode == 0


def keep_left_out(reasons: dict[str, str]) -> None:
    """Note the databases and programs that tests must do without."""
    LEFT_OUT.write_text(json.dumps(reasons, indent=1), encoding="utf-8")


def left_out() -> dict[str, str]:
    """The databases and programs that tests must do without, and why."""
    if not LEFT_OUT.exists():
        return {}
    reasons: dict[str, str] = json.loads(LEFT_OUT.read_text(encoding="utf-8"))
    return reasons
