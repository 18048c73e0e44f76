"""A test that asks the database is found by what it says; one that does not say it fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SAY_IT = """
import pytest
from tests.vendor import only_on

@pytest.mark.django_db
def test_marked(): ...

def test_with_a_fixture(transactional_db): ...

@pytest.fixture
def rows(db): ...

def test_with_a_fixture_of_a_fixture(rows): ...

@pytest.mark.usefixtures("db")
class TestAll:
    def test_of_a_class(self): ...

@pytest.mark.each_database
def test_by_kind(): ...

@only_on("postgresql", because="it is so")
def test_of_one(): ...
"""
ASK_NOTHING = """
def test_of_nothing(): ...
"""
DO_NOT_SAY_IT = """
import subprocess, sys
from django.db import connection
from django_tasks.models import Task

def test_by_a_statement():
    Task.objects.count()

def test_by_the_kind():
    assert connection.vendor

def test_by_the_kind_where_nobody_hears_of_it():
    try:
        connection.vendor
    except BaseException:
        pass

def test_past_the_guard(django_db_blocker):
    with django_db_blocker.unblock():
        Task.objects.count()

def test_by_another_process():
    subprocess.run([sys.executable, "manage.py", "showmigrations"], check=True)
"""


def run(folder: Path, tests: str, *options: str, url: str = "") -> str:
    """The words of pytest about tests in a folder, with our hooks and fixtures."""
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.conftest"]')
    (folder / "test_it.py").write_text(tests)
    ours = ("-c", "pyproject.toml", "-p", "no:cacheprovider", "-q", "-rA")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *ours, *options, str(folder)],
        env={**os.environ, "DATABASE_URL": url or f"sqlite:///{folder}/db"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("url", "elsewhere"),
    [("sqlite:///x", "test_of_one"), ("postgres://127.0.0.1:1/x", "test_of_nothing")],
)
def test_a_server_is_given_all_that_asks_it_and_no_more(
    tmp_path: Path, url: str, elsewhere: str
) -> None:
    output = run(tmp_path, SAY_IT + ASK_NOTHING, "--collect-only", url=url)
    assert "6/7 tests collected" in output, output
    assert elsewhere not in output


def test_who_asks_and_does_not_say_it_fails(tmp_path: Path) -> None:
    output = run(tmp_path, ASK_NOTHING + DO_NOT_SAY_IT)
    failed = set(re.findall(r"^(?:FAILED|ERROR) .*::(\w+)", output, re.MULTILINE))
    assert failed == set(re.findall(r"def (test\w+)", DO_NOT_SAY_IT)), output
