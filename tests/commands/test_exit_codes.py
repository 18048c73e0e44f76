"""Exit codes of real processes, as a monitor and a deployment see them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Manage = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def manage(tmp_path_factory: pytest.TempPathFactory) -> Manage:
    """Call manage.py on a database of its own, of SQLite, with tables and nothing else."""
    path = tmp_path_factory.mktemp("commands") / "db.sqlite3"
    environment = os.environ | {"DATABASE_URL": f"sqlite:///{path}", "COLUMNS": "80"}

    def run(*arguments: str, stdout: int = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    done = run("migrate", "--verbosity", "0")
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["taskstatus"], 0),
        (["taskstatus", "--check"], 1),
        (["taskstatus", "--no-such-flag"], 2),
        (["listtasks", "--since", "soon"], 2),
        (["showtask", "order", "1"], 1),
        (["canceltasks"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int, manage: Manage) -> None:
    done = manage(*arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) == (code > 0)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["taskstatus"], 0),
        (["taskstatus", "--check"], 1),
        (["taskstatus", "--format", "json"], 0),
        (["starttask", "--until-empty", "--processes", "1"], 0),
    ],
)
def test_a_command_whose_reader_has_left_ends_quietly_with_its_usual_code(
    arguments: list[str], code: int, manage: Manage
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = manage(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == code, done.stderr
    assert "BrokenPipeError" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", ["taskstatus", "showtask order 1", "addtask order 1", "checktasks"]
)
def test_tables_that_are_missing_are_one_sentence(words: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *words.split()],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "CommandError: The tables of django_tasks in database default are not th"
    )
    assert last.endswith("run manage.py migrate --database default")
    assert "Traceback" not in done.stderr
