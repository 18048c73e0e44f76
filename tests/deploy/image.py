"""The Dockerfile, followed by hand: its files and commands for real, in folders of a test.

What a daemon would add is not here: layers, the base image, the user, the file system's root.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 300


@dataclass(frozen=True)
class Instruction:
    """One line of a Dockerfile, its continuations joined."""

    name: str
    rest: str

    def words(self) -> list[str]:
        return shlex.split(self.rest)


def instructions(text: str) -> list[Instruction]:
    joined = re.sub(r"\\\n\s*", " ", text)
    lines = (line.partition(" ") for line in joined.splitlines() if line and line[0] != "#")
    return [Instruction(name, rest.strip()) for name, _, rest in lines]


@dataclass
class Image:
    """A folder that stands for the root of the file system, and what the instructions have said.

    Stages share the root: each of ours takes over all that the one before it has made.
    """

    root: Path
    context: Path
    environment: dict[str, str]
    folder: str = "/"
    command: list[str] = field(default_factory=list)
    user: str = ""
    port: int = 0
    signal: str = ""
    bases: list[str] = field(default_factory=list)

    def build(self, text: str) -> "Image":
        for each in instructions(text):
            self._steps[each.name](self, each)
        return self

    def at_home(self, text: str) -> str:
        """The text with folders under our root in the place of those of the image."""
        return re.sub(r"(?<![\w./])/(?=venv|srv|requirements)", f"{self.root}/", text)

    def run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.path(self.folder),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}:\n{done.stdout}"
        return done.stdout

    def path(self, place: str) -> Path:
        return self.root / place.lstrip("/")

    def _from(self, each: Instruction) -> None:
        self.bases.append(each.words()[0])
        self.folder = "/"

    def _env(self, each: Instruction) -> None:
        for pair in each.words():
            name, _, value = pair.partition("=")
            old = self.environment.get(name, "")
            self.environment[name] = self.at_home(value.replace(f"${name}", old))

    def _run(self, each: Instruction) -> None:
        self.run(["/bin/sh", "-c", self.at_home(each.rest)])

    def _copy(self, each: Instruction) -> None:
        *_, source, target = each.words()
        if each.rest.startswith("--from="):
            assert source == target  # the stages share the root
        elif source == ".":
            ignored = _ignored((self.context / ".dockerignore").read_text(encoding="utf-8"))
            goal = self.path(self.folder)
            shutil.copytree(
                self.context, goal, ignore=lambda folder, names: ignored(names), dirs_exist_ok=True
            )
        else:
            shutil.copy(self.context / source, self.path(target))

    def _workdir(self, each: Instruction) -> None:
        self.folder = each.rest
        self.path(each.rest).mkdir(parents=True, exist_ok=True)

    def _cmd(self, each: Instruction) -> None:
        self.command = json.loads(each.rest)

    def _user(self, each: Instruction) -> None:
        self.user = each.rest

    def _expose(self, each: Instruction) -> None:
        self.port = int(each.rest)

    def _stopsignal(self, each: Instruction) -> None:
        self.signal = each.rest

    _steps = {
        "FROM": _from,
        "ENV": _env,
        "RUN": _run,
        "COPY": _copy,
        "WORKDIR": _workdir,
        "CMD": _cmd,
        "USER": _user,
        "EXPOSE": _expose,
        "STOPSIGNAL": _stopsignal,
    }


def _ignored(text: str) -> Callable[[list[str]], set[str]]:
    """The names that ``.dockerignore`` leaves out; ours have no slash but that of ``**/``."""
    patterns = [line.removeprefix("**/") for line in text.splitlines() if line]
    assert not any("/" in pattern for pattern in patterns)
    return lambda names: {
        name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    }


def bare_environment(folder: Path, wheels: Path) -> dict[str, str]:
    """The environment of a base image with Python; pip finds our wheel beside the registry."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} "$@"\n')
    python.chmod(0o755)
    ours = {
        name: value
        for name, value in os.environ.items()
        if name == "HOME" or name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
    links = f"{wheels} {ours.get('PIP_FIND_LINKS', '')}".strip()
    return {**ours, "PATH": f"{programs}:{os.defpath}", "LANG": "C.UTF-8", "PIP_FIND_LINKS": links}
