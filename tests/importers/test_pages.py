"""Blocks of apscheduler.rst, celery-beat.rst and django-q2.rst in docs/coming-from.

The project of a page is built. Its program of before fills the store of another scheduler, and
``importtasks`` says what the page shows.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from devtools import CHECKOUT
from tests.importers.stores import need
from tests.site.building import build
from tests.site.reading import Block, Page, read
from tests.site.terminal import Terminal, commands, environment

PAGES = CHECKOUT / "docs" / "coming-from"

JOBS = """
import django
django.setup()
from shop import jobs
jobs.scheduler.start(paused=True)
jobs.place("42")
jobs.scheduler.start = lambda: None
jobs.start()
jobs.scheduler.shutdown()
"""
BEAT = """
import django
django.setup()
import before.shop.tasks
from before.mysite.celery import app
from django_celery_beat.schedulers import DatabaseScheduler
app.set_current()
DatabaseScheduler(app=app, lazy=True).setup_schedule()
"""


def test_the_jobs_of_apscheduler(tmp_path: Path, database: dict[str, Any]) -> None:
    need("apscheduler", "sqlalchemy")
    page, place = project("apscheduler.rst", tmp_path, database)
    (place / "before" / "shop" / "jobs.py").rename(place / "shop" / "jobs.py")
    python(place, "manage.py", "migrate", "--run-syncdb")
    python(place, "-c", JOBS)
    says_what_the_page_shows(page, place)


def test_the_periodic_tasks_of_celery_beat(tmp_path: Path, database: dict[str, Any]) -> None:
    need("celery", "django_celery_beat")
    page, place = project("celery-beat.rst", tmp_path, database)
    with (place / "mysite" / "settings.py").open("a") as settings:
        settings.write("INSTALLED_APPS.append('django_celery_beat')\n")
    python(place, "manage.py", "migrate", "--run-syncdb")
    python(place, "-c", BEAT)
    says_what_the_page_shows(page, place)


def test_the_program_for_django_q2_is_python() -> None:
    """The package is in no environment of ours; the page names the version it was tried with."""
    compile(block_of(read(PAGES / "django-q2.rst")).text, "django-q2.rst", "exec")


def project(name: str, tmp_path: Path, database: dict[str, Any]) -> tuple[Page, Path]:
    page, place = read(PAGES / name), tmp_path / "project"
    build(page, place, database)
    return page, place


def python(place: Path, *arguments: str) -> None:
    there = environment(place) | {"DJANGO_SETTINGS_MODULE": "mysite.settings"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=place, env=there, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def block_of(page: Page) -> Block:
    """The block that this file runs."""
    (block,) = (block for block in page.blocks if "run by" in block.orders)
    return block


def says_what_the_page_shows(page: Page, place: Path) -> None:
    terminal = Terminal(place)
    try:
        for command in commands(block_of(page).text):
            problem = terminal.type(command, times_differ=True, keeps_running=False)
            assert not problem, problem
    finally:
        terminal.close()
