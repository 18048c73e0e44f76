"""The command that starts private database servers, as far as it goes without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devtools import CHECKOUT
from devtools.servers.catalogue import SERVERS, SINGLE
from devtools.servers.process import Process, started_at


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As on a system without any package, and from anywhere."""
    command = [sys.executable, "-I", "-S", str(CHECKOUT / "scripts" / "servers"), *arguments]
    environment = os.environ | {"SERVERS_DIR": str(place / "servers")}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


def test_it_needs_nothing_but_python(tmp_path: Path) -> None:
    shown = run(tmp_path, "status")
    assert shown.returncode == 1, shown.stderr
    assert shown.stdout == "mariadb: not started\npostgresql: not started\n"
    assert not list(tmp_path.iterdir())


def test_an_unknown_name_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    refused = run(tmp_path, "start", "oracle")
    assert refused.returncode == 2
    assert f"there is no oracle, only {', '.join(SERVERS)}" in refused.stderr


def test_a_problem_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    problem = run(tmp_path, "restart", "mariadb")
    assert (problem.returncode, problem.stderr) == (1, "MariaDB was never started.\n")


def test_a_process_is_its_pid_and_its_start() -> None:
    started = started_at(os.getpid())
    assert started
    assert Process(os.getpid(), started).runs()
    assert not Process(os.getpid(), "0").runs()


def test_a_server_that_died_before_its_start_was_read_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devtools.servers.record.RUNTIME", tmp_path)
    server = SINGLE["mariadb"]
    server.write_note(pid=2**22 + 1, started=None)  # above all that Linux gives
    assert server.process() is None
