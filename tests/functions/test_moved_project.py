"""A small project that has moved over, with the habits of those that did: its own admin site, long
names, functions in many modules. Each step is a process of its own, as in a deployment.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = """
SECRET_KEY = "x" * 50
USE_TZ = True
ROOT_URLCONF = "site_urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3",
    "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}}}
contrib = ("auth", "contenttypes", "messages", "sessions", "admin")
INSTALLED_APPS = [*(f"django.contrib.{each}" for each in contrib), "django_tasks", "bookshelves"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages"]}}]
TASKS = {"default": {"BACKEND": "django_tasks.backend.DatabaseBackend", "QUEUES": []}}
DJANGO_TASKS = {"STRICT_CODES": "raise"}
"""

SITE = """
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.urls import path

from django_tasks.admin import register

site = AdminSite(name="bookshelves")
site.register(User)
register(site)
urlpatterns = [path("admin/", site.urls)]
"""

FUNCTIONS = """
from django.tasks import task

@task
def push(subject, body=""):
    print("PUSH", subject, body)

@task
def create_html_snapshots_for_bookmarks():
    pass
"""

SCHEDULED = """
from django.tasks import task
from django_tasks.backend import options

@task
@options(schedule="every 1h")
def nightly():
    pass
"""

ADD = (
    "from django_tasks.api import add_task; add_task('bookshelves.tasks.push', 's', biz_ext=['x'])"
)


class Project:
    """A folder with a project; ``manage`` answers the exit code and all that was printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("site_settings.py", SETTINGS)
        self.write("site_urls.py", SITE)
        self.write("bookshelves/__init__.py", "")
        self.write("bookshelves/tasks.py", FUNCTIONS)
        assert self.manage("migrate", "-v0", "--skip-checks") == (0, "")

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def manage(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "django", *words],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join([str(self.folder), *filter(None, sys.path)]),
                "DJANGO_SETTINGS_MODULE": "site_settings",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout


@pytest.fixture
def moved(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_an_admin_site_of_its_own_shows_the_pages_once_they_are_registered(moved: Project) -> None:
    assert moved.manage("check", "--fail-level", "WARNING")[0] == 0
    moved.write("site_urls.py", SITE.replace("register(site)", ""))
    code, said = moved.manage("check", "--fail-level", "WARNING")
    assert (code, "W013" in said) == (1, True), said


def test_codes_of_functions_are_known_by_each_process(moved: Project) -> None:
    assert moved.manage("shell", "-v0", "-c", ADD) == (0, "")
    imported = '{"args": ["hello"], "kwargs": {"body": "all"}}'
    add = ("addtask", "bookshelves.tasks.push", "imported", "--data", imported)
    assert moved.manage(*add)[0] == 0
    code, said = moved.manage("runtask", "bookshelves.tasks.push", "imported")
    assert (code, "PUSH hello all" in said) == (0, True), said
    assert moved.manage("checktasks")[0] == 0
    code, said = moved.manage("shell", "-v0", "-c", ADD.replace("push", "pushed"))
    assert (code, "did you mean 'bookshelves.tasks.push'" in said) == (1, True), said


def test_a_long_name_can_be_read(moved: Project) -> None:
    name = "create_html_snapshots_for_bookmarks"
    ask = f"from bookshelves import tasks; print(tasks.{name}.biz_code)"
    code, said = moved.manage("shell", "-v0", "-c", ask)
    assert (code, said.strip()) == (0, f"bookshelves.{name}")


def test_a_schedule_that_no_worker_imports_is_told_of(moved: Project) -> None:
    moved.write("bookshelves/work.py", SCHEDULED)
    moved.write("site_urls.py", f"import bookshelves.work\n{SITE}")
    code, said = moved.manage("check", "--fail-level", "WARNING")
    assert (code, "W014" in said, "bookshelves.work.nightly" in said) == (1, True, True), said


def test_a_module_of_functions_that_cannot_be_imported_stops_a_deployment(moved: Project) -> None:
    moved.write("bookshelves/tasks.py", "import nonexistent_module\n")
    for words in (("check",), ("checktasks",), ("starttask",)):
        code, said = moved.manage(*words)
        assert (code, "nonexistent_module" in said) == (1, True), said
