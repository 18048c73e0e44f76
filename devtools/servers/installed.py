"""A server's programs: where they are installed, and how they are run."""

import os
import subprocess
from pathlib import Path
from typing import Any

from devtools.interruption import undisturbed
from devtools.messages import Problem
from devtools.servers.programs import find_directory, program_path, utf8_locale
from devtools.servers.record import Recorded
from devtools.servers.users import run_as


class Installed(Recorded):
    """A server of which the programs are there, or missing."""

    packages: str  # what Debian calls what is needed
    programs: list[str]  # the server itself comes first
    places: list[str] = []  # where to look besides PATH

    def installed_in(self) -> Path | None:
        return find_directory(self.programs, self.places)

    def bin(self) -> Path:
        directory = self.installed_in()
        if directory is None:
            raise Problem(f"{self.title} is not installed (Debian packages: {self.packages}).")
        return directory

    def program(self, name: str) -> str:
        return program_path(name, self.bin()) or name

    def run(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program that ends by itself, as the server's user."""
        user = self.note()["user"]
        environment = {**self.environment(), **options.pop("env", {})}
        return subprocess.run(
            command,
            env=environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            **run_as(user),
            **options,
        )

    def environment(self) -> dict[str, str]:
        """Nothing of ours but PATH: PGPORT, MYSQL_HOST or TZ must not reach the servers."""
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": utf8_locale()}

    def run_logged(self, command: list[str]) -> None:
        """Run a maker of the data directory; it takes a second and has children of its own."""
        with open(self.log_file, "a", encoding="utf-8") as log, undisturbed():
            if self.run(command, stdout=log, stderr=log).returncode != 0:
                raise Problem(f"{Path(command[0]).name} failed: {self.end_of_log()}")
