"""The examples of the testing page, as the project that they are."""

import json
import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from textwrap import dedent

from django.conf import settings

from tests.vendor import ON_SQLITE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "how-to" / name for name in ("test-handlers.rst", "crash-test.rst")]
BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", re.MULTILINE)
SETTINGS = """
import json
from pathlib import Path

BASE_DIR = Path(__file__).parent
SECRET_KEY = "of a test"
INSTALLED_APPS = ["django_tasks", "shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": json.loads((BASE_DIR / "database.json").read_text())}
"""
MANAGE = """
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
from django.core.management import execute_from_command_line

if __name__ == "__main__":  # processes of --parallel may import this file
    execute_from_command_line(sys.argv)
"""
PYTEST = """
[pytest]
DJANGO_SETTINGS_MODULE = settings
python_files = tests.py test_*.py
filterwarnings = error
"""


def files_of_page() -> dict[str, str]:
    """The examples by the file that their first line names."""
    files: dict[str, str] = {}
    for match in BLOCK.finditer("\n".join(page.read_text() for page in PAGES)):
        code = dedent(match[1]).strip() + "\n"
        name = code.partition("\n")[0].removeprefix("# ")
        files[name] = f"{files[name]}\n\n{code}" if name in files else code
    return files


def make(place: Path, database: str) -> None:
    """Write the project of the page; its test database has a name with ``database`` in it."""
    files = files_of_page()
    own = files.pop("mysite/settings.py")
    files |= {"settings.py": SETTINGS + (own if ON_SQLITE else "")}
    files |= {"manage.py": MANAGE, "pytest.ini": PYTEST, "shop/__init__.py": ""}
    files |= {"tests/__init__.py": "", "database.json": json.dumps(_database(place, database))}
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    announce(place)


def _database(place: Path, name: str) -> dict[str, object]:
    default = settings.DATABASES["default"]
    wanted = ("ENGINE", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")
    database = {key: default[key] for key in wanted if key in default}
    if ON_SQLITE:
        # Not WAL: for --parallel Django copies the file, without what the log holds.
        options = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA synchronous=OFF"}
        return database | {"NAME": str(place / "db.sqlite3"), "OPTIONS": options}
    return database | {"NAME": default["NAME"], "TEST": {"NAME": f"test_page_{name}"}}


def announce(place: Path) -> None:
    """Have this worktree's entry points known, as an installation of it would."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    (points,) = setup["options.entry_points"].values()
    facts = place / "the_worktree-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: the-worktree\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[pytest11]\n{points.strip()}\n")


def run(place: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run Python there."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DJANGO_", "PYTEST_", "DATABASE_URL"))
    }
    environment = kept | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(place)])}
    return subprocess.run(
        [sys.executable, *command],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
