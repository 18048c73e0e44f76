"""The number of commits says what is run: as many in a row have run it all."""

import itertools
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from devtools import test as command
from devtools import turns
from devtools.databases import TITLES


def git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    directory = tmp_path / "repository"
    directory.mkdir()
    git(directory, "init", "--quiet")
    return directory


def commit(directory: Path) -> None:
    git(directory, "commit", "--quiet", "--allow-empty", "--message", "x")


def test_five_commits_in_a_row_have_the_five_turns(repository):
    commit(repository)
    found = []
    for _ in range(5):
        commit(repository)
        found.append(turns.of_commit(5, repository))
    assert found == [
        (2, "2 commits"),
        (3, "3 commits"),
        (4, "4 commits"),
        (0, "5 commits"),
        (1, "6 commits"),
    ]


def test_a_clone_without_history_takes_the_turn_of_its_commits_hash(repository, tmp_path):
    for _ in range(2):
        commit(repository)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository}", str(clone))
    hash_ = git(clone, "rev-parse", "HEAD")

    number, reason = turns.of_commit(5, clone)

    assert number == int(hash_, 16) % 5
    assert reason == f"a clone without history, commit {hash_[:12]}"


def test_without_a_repository_it_is_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert turns.of_commit(5, tmp_path) == (0, "no git repository")


def test_sixteen_commits_in_a_row_have_each_pair_of_a_python_and_a_database_and_all_by_turns():
    pairs: Counter[tuple[str, str]] = Counter()
    others: Counter[str] = Counter()
    for number in range(command.TURNS):
        turn = command.turn(number)
        assert len({*turn.sessions}) == len(turn.sessions)
        assert f"tests({turn.database})" not in turn.sessions
        pairs[turn.python, turn.database] += 1
        others.update([turn.long, *turn.others])

    assert pairs == {
        (python, database): {"matrix-3.13": 2}.get(python, 1)
        for python in command.PYTHONS
        for database in TITLES
    }
    by_turns = itertools.chain(command.LONG, *command.BY_TURNS)
    assert others == dict.fromkeys(by_turns, command.TURNS // 2)


def test_each_commit_has_the_short_tests_on_each_database():
    for number in range(command.TURNS):
        turn = command.turn(number)
        short = {name for name in TITLES if f"tests({name})" in turn.sessions}
        assert short | {turn.database} == {*TITLES}
        assert turn.python in turn.sessions
