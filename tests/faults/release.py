"""The next release of the package, made for a test: one more migration, one new nullable column."""

import os
import shutil
from pathlib import Path
from typing import Any

from devtools import CHECKOUT

VERSION = "0.2.0"
COLUMN = "origin"
MIGRATION = f"0002_task_{COLUMN}"

_AFTER = '    progress = models.JSONField(_("progress"), null=True, editable=False)\n'
_FIELD = f'    {COLUMN} = models.CharField(_("origin"), max_length=50, null=True, editable=False)\n'
_KNOWN = '        "latest_time": None,\n'
_MIGRATION = f'''
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_tasks", "0001_initial")]
    operations = [
        migrations.AddField(
            "task",
            "{COLUMN}",
            models.CharField("origin", max_length=50, null=True, editable=False),
        ),
    ]
'''


class Release:
    """A copy of the package in a directory of its own, and the processes that run with it."""

    def __init__(self, directory: Path) -> None:
        self._package = directory / "django_tasks"
        if not self._package.exists():
            _make(self._package)
        # The copy comes before the checkout, which has the tests and the project.
        self.environment: dict[str, Any] = {
            "PYTHONPATH": os.pathsep.join(map(str, (directory, CHECKOUT))),
            "PYTHONSAFEPATH": "1",
        }


def _make(package: Path) -> None:
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "django_tasks", package, ignore=without)
    _replace(package / "models.py", _AFTER, _AFTER + _FIELD)
    # The row that an add gives back is made of what is known, without another look at it.
    _replace(package / "store" / "upsert.py", _KNOWN, f'{_KNOWN}        "{COLUMN}": None,\n')
    _replace(package / "__init__.py", '__version__ = "', f'__version__ = "{VERSION}"  # "')
    (package / "migrations" / f"{MIGRATION}.py").write_text(_MIGRATION, encoding="utf-8")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")
