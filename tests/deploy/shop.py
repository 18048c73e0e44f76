"""The project of the tutorial with the settings of ``deploy/``, in a folder of its own."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from devtools import CHECKOUT
from tests.site.reading import read
from tests.waiting import DEADLINE, eventually

DEPLOY = CHECKOUT / "deploy"
TUTORIAL = CHECKOUT / "docs" / "start" / "tutorial.rst"
SQLITE = urlencode(
    {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
)
# Leases are short here: what a killed worker held is to run again within the test.
MORE_SETTINGS = '\nDJANGO_TASKS = {"LEASE": 3, "POLL_INTERVAL": 0.1}\n'


@dataclass(frozen=True)
class Shop:
    """The folder that stands for ``/srv/shop``, and those beside it."""

    place: Path

    @property
    def folder(self) -> Path:
        return self.place / "srv"

    @property
    def database(self) -> Path:
        return self.place / "db.sqlite3"

    @property
    def secrets(self) -> dict[str, str]:
        """The variables that the files leave to the place where they are used."""
        return {
            "SECRET_KEY": "a key of this test",
            "DATABASE_URL": f"sqlite:///{self.database}?{SQLITE}",
            "ALLOWED_HOSTS": "shop.example.com,127.0.0.1",
        }

    def at_home(self, text: str) -> str:
        """The text of a file with the folders of this project in the place of those it names."""
        places = {
            "/srv/shop/venv/bin/python": sys.executable,
            "/srv/shop": str(self.folder),
            "/etc/shop": str(self.place / "etc"),
            "/run/django-tasks": str(self.place / "run" / "django-tasks"),
            "/var/log/shop": str(self.place / "log"),
        }
        for place, ours in places.items():
            text = text.replace(place, ours)
        return text

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a process that has nothing from the one that runs the tests."""
        return {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(CHECKOUT), **more}

    def manage(self, *words: str, python: str = sys.executable) -> str:
        """Run ``manage.py`` to its end; returns what it says."""
        more = {"DJANGO_SETTINGS_MODULE": "mysite.production", **self.secrets}
        done = subprocess.run(
            [python, "manage.py", *words],
            cwd=self.folder,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # Tasks

    def add(self, number: str, **fields: str) -> None:
        """Add a task that waits at the gate."""
        flags = [f"--{name}={value}" for name, value in fields.items()]
        self.manage(
            "addtask", "end_promotion", number, f'--data={{"folder": "{self.place}"}}', *flags
        )

    def said(self, event: str) -> list[str]:
        """The numbers of tasks that have begun or ended, in that order."""
        path = self.place / event
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def wait(self, event: str, number: str, times: int = 1, log: Path | None = None) -> None:
        eventually(
            lambda: self.said(event).count(number) >= times,
            f"task {number} has {event} {times} times",
            log=lambda: log.read_text() if log and log.exists() else "",
        )

    def open_the_gate(self) -> None:
        (self.place / "gate").touch()

    def count(self, table: str) -> int:
        """The rows of ``t_task`` or ``t_task_worker``."""
        connection = sqlite3.connect(self.database, timeout=DEADLINE)
        try:
            statement = f"SELECT count(*) FROM {table}"  # noqa: S608 - a name of ours
            return int(connection.execute(statement).fetchone()[0])
        finally:
            connection.close()


def laid_out(place: Path) -> Shop:
    """Lay the project out, with the settings of ``deploy/`` and a database that has its tables."""
    shop = Shop(place)
    shop.folder.mkdir(parents=True)
    for words in (("startproject", "mysite", str(shop.folder)), ("startapp", "shop")):
        command = [sys.executable, "-m", "django", *words]
        subprocess.run(
            command, check=True, cwd=shop.folder, env=shop.environment(), timeout=DEADLINE
        )
    shutil.copy(
        Path(__file__).with_name("shop_tasks.py"), shop.folder / "shop" / "task_handlers.py"
    )
    inner = shop.folder / "mysite"
    shutil.copy(DEPLOY / "production.py", inner / "production.py")
    with open(inner / "settings.py", "a", encoding="utf-8") as settings:
        settings.write(tutorials_settings() + MORE_SETTINGS)
    shop.manage("migrate", "--verbosity=0")
    return shop


def tutorials_settings() -> str:
    """The lines that the tutorial adds to the settings of ``startproject``."""
    (text,) = (
        block.text
        for block in read(TUTORIAL).blocks
        if block.text.startswith("# mysite/settings.py\n")
    )
    return f"\n{text}\n"


def copied(template: Shop, place: Path) -> Shop:
    """Copy the project with its database, and lay out what stands beside it."""
    shop = Shop(place)
    shutil.copytree(template.folder, shop.folder)
    for name in ("etc", "run", "log", "tmp"):
        (place / name).mkdir()
    source, copy = sqlite3.connect(template.database), sqlite3.connect(shop.database)
    try:
        source.backup(copy)
    finally:
        source.close()
        copy.close()
    return shop


def secret_files(shop: Shop) -> None:
    """Write each secret to a file of its name, in small letters, in ``/etc/shop``."""
    for name, value in shop.secrets.items():
        (shop.place / "etc" / name.lower()).write_text(value, encoding="utf-8")


def lines_of(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())
