"""The PyPI distribution "django-tasks" has our import name: the user is told."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import django_tasks
from django_tasks import installation

OURS = Path(django_tasks.__file__).parent

# What matters of the stranger: the names of its files, and that they know nothing of ours.
THEIRS = {
    "__init__.py": "__version__ = '0.12.0'\n\n\ndef task(function):\n    return function\n",
    "apps.py": (
        "from django.apps import AppConfig\n\n\n"
        "class TasksAppConfig(AppConfig):\n"
        "    name = 'django_tasks'\n"
        "    label = 'django_tasks'\n\n"
        "    def ready(self):\n"
        "        from . import checks\n"
    ),
    "base.py": "class Task:\n    pass\n",
    "checks.py": "def check_tasks(app_configs, **kwargs):\n    return []\n",
    "exceptions.py": "class TaskError(Exception):\n    pass\n",
    "signals.py": "from django.dispatch import Signal\n\ntask_enqueued = Signal()\n",
    "utils.py": "",
}

SET_UP = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django_tasks"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()
"""
CHECK = f"""{SET_UP}
from django.core.management import call_command
call_command("check")
"""


class Site:
    """A folder of installed packages, and a Python that looks there first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install_ours(self) -> None:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(OURS, self.folder / "django_tasks", ignore=ignored, dirs_exist_ok=True)
        self._record("django-delayed-tasks", "0.1.0")

    def install_theirs(self, *, tells_packages: bool = True) -> None:
        package = self.folder / "django_tasks"
        package.mkdir(exist_ok=True)
        for name, text in THEIRS.items():
            (package / name).write_text(text)
        self._record("django-tasks", "0.12.0", tells_packages)

    def _record(self, name: str, version: str, tells_packages: bool = True) -> None:
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata)
        if tells_packages:
            (info / "top_level.txt").write_text("django_tasks\n")
        (info / "RECORD").write_text("django_tasks/__init__.py,,\ndjango_tasks/apps.py,,\n")

    def run(self, code: str) -> "subprocess.CompletedProcess[str]":
        environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
        environment |= {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_alone_this_package_starts_and_its_checks_find_nothing(site: Site) -> None:
    site.install_ours()
    done = site.run(CHECK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no issues" in done.stdout


def test_installed_over_the_stranger_imports_of_its_names_explain_themselves(site: Site) -> None:
    site.install_theirs()
    site.install_ours()
    done = site.run("from django_tasks import task")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: cannot import 'task' from 'django_tasks'")
    assert "django-delayed-tasks" in last
    assert "not the PyPI distribution 'django-tasks'" in last


@pytest.mark.parametrize("tells_packages", [True, False], ids=["setuptools", "other tools"])
def test_installed_over_the_stranger_the_system_check_names_it(
    site: Site, tells_packages: bool
) -> None:
    site.install_theirs(tells_packages=tells_packages)
    site.install_ours()
    done = site.run(CHECK)
    assert done.returncode == 1
    assert "(django_tasks.E001)" in done.stderr
    assert "shared by django-delayed-tasks and django-tasks" in done.stderr


def test_overwritten_by_the_stranger_django_does_not_start_and_says_the_cure(site: Site) -> None:
    site.install_ours()
    site.install_theirs()
    done = site.run(SET_UP)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("django.core.exceptions.ImproperlyConfigured: (django_tasks.E001)")
    assert "has been overwritten by the PyPI distribution 'django-tasks'" in last
    assert last.endswith(installation.CURE)


def test_the_cure_names_both_distributions() -> None:
    assert "“pip uninstall -y django-tasks”" in installation.CURE
    # From a clone: no index has the package.
    assert "“pip install --force-reinstall --no-deps ../django-delayed-tasks”" in installation.CURE


@pytest.mark.parametrize("name", ["task", "default_task_backend", "TaskResult"])
def test_names_of_the_stranger_raise_an_import_error_also_as_attributes(name: str) -> None:
    with pytest.raises(ImportError, match=name):
        getattr(django_tasks, name)


def test_names_of_nobody_are_attribute_errors() -> None:
    assert not hasattr(django_tasks, "nonsense")


@pytest.mark.parametrize("spelling", ["django-delayed-tasks", "Django-Delayed-Tasks"])
def test_our_own_distribution_is_no_stranger(
    spelling: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = metadata.PathDistribution(tmp_path)
    (tmp_path / "METADATA").write_text(f"Name: {spelling}\n")
    (tmp_path / "RECORD").write_text("django_tasks/__init__.py,,\n")
    monkeypatch.setattr(metadata, "distributions", lambda: [ours, ours])
    assert installation.clash() is None
