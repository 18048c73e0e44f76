"""A log of make test says what runs and what is done."""

import subprocess
import sys

import pytest

from devtools import progress
from devtools.progress import Progress

NOX = """
import sys
print("Starting session checks...")
print("Starting session tests(sqlite)...")
print("Starting session tests(mysql)...")
print("========== + checks: success, 47 seconds ==========")
print("========== - tests(mysql): skipped ==========")
print("The output of a session", flush=True)
sys.stdin.read()
sys.exit(3)
"""
LAST = "0 min: running: tests(sqlite); done: checks, tests(mysql) (skipped)"


def test_it_says_what_runs_and_what_is_done_and_passes_all_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.01)
    command = [sys.executable, "-c", NOX]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        end = process.stdin.close
        monkeypatch.setattr(progress, "say", lambda text: text == LAST and end())
        assert Progress(process).wait() == 3
    assert "The output of a session" in capsys.readouterr().out
