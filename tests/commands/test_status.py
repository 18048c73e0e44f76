"""taskstatus, and its check."""

from typing import Any

import pytest

from django_tasks.api import pause_tasks
from django_tasks.store.dialects import Dialect, dialect_of
from django_tasks.values.status import Status
from tests.commands.conftest import Call
from tests.factories import a_row, a_worker, later, rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


def test_nothing_is_wrong(call: Call) -> None:
    a_worker()
    said = call("taskstatus")
    assert said.code == 0
    assert "Nothing is wrong." in said


def test_what_a_person_on_call_asks(call: Call) -> None:
    a_worker("web-1:1:a")
    a_row("1", when=later(-500))
    a_row("2", status=Status.FAILED, exception="a.ConnectionError", biz_code="refund")
    pause_tasks(biz_code="mail", by="anna")
    said = call("taskstatus")
    for part in (
        "✗ 1 task of “order” is late, by 8 min 20 s.",
        "web-1:1:a",
        "ConnectionError",
        "anna",
        "1 worker takes tasks; due: 1, late: 1, running: 0, failed: 1",
    ):
        assert part in said


def test_it_fits(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    a_worker("a-long-name-of-a-host.example.com:123456:abcdef")
    a_row("2", status=Status.FAILED, exception="a.ConnectionError", biz_code="r" * 50)
    tables = call("taskstatus").partition("Workers")[2]
    assert all(len(line) <= 60 for line in tables.splitlines())


def test_a_server_that_rejects_what_a_worker_needs_is_the_first_problem(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_worker("web-1:1:a", state="rejected")

    def bound(self: Dialect, bounds: Any) -> None:
        self.fetch("SELECT nosuch FROM {task}")

    monkeypatch.setattr(type(dialect_of("default")), "bound", bound)
    said = call("taskstatus")
    lines = said.splitlines()
    assert lines[1].startswith(
        "✗ The database default rejects a statement by which django_tasks sets up a session: "
    )
    assert lines[2].startswith("✗ Worker web-1:1:a claims nothing: the server rejects a statement")
    assert "statements rejected" in said
    assert call("taskstatus", "--check", "--min-workers", "0").code == 1


def test_json(call: Call) -> None:
    a_worker("w")
    read = call("taskstatus", "--format", "json").json
    assert read["workers"]["working"] == 1
    assert "broken" not in read
    assert call("taskstatus", "--format", "json", "--check").json["broken"] == []


def test_a_check_that_is_passed(call: Call) -> None:
    a_worker()
    a_row("1", when=later(-60))
    rows(range(2, 12), status=Status.FAILED)
    said = call("taskstatus", "--check")
    assert (said.code, said) == (0, "All is well.\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-late", "59.9"], "A task of order is 1 min 0 s late, and 59 s are allowed."),
        (["--max-failed", "9"], "10 tasks have failed, and 9 are allowed."),
        (["--min-workers", "2"], "1 worker takes tasks, and 2 must."),
    ],
)
def test_each_limit_can_be_broken(arguments: list[str], words: str, call: Call) -> None:
    a_worker()
    a_row("1", when=later(-60))
    rows(range(2, 12), status=Status.FAILED)
    said = call("taskstatus", "--check", *arguments)
    assert said.code == 1
    assert said.error == "1 limit is broken."
    assert said.splitlines()[0][:12] == words[:12]
    read = call("taskstatus", "--check", "--format", "json", *arguments)
    assert read.code == 1
    assert len(read.json["broken"]) == 1


def test_more_failures_than_the_overview_counts(call: Call) -> None:
    a_worker()
    rows(range(1005), status=Status.FAILED)
    assert call("taskstatus", "--check", "--max-failed", "1005").code == 0
    assert call("taskstatus", "--check", "--max-failed", "1004").code == 1


def test_silent_and_quiet_workers_are_none(call: Call) -> None:
    a_worker("gone", heartbeat=later(-100))
    a_worker("quiet", wish="quiet")
    said = call("taskstatus", "--check")
    assert (said.code, said.splitlines()[0]) == (1, "0 workers take tasks, and 1 must.")


def test_a_paused_code_is_not_late(call: Call) -> None:
    a_worker()
    a_row("1", when=later(-500))
    pause_tasks(biz_code="order")
    assert call("taskstatus", "--check").code == 0


@pytest.mark.parametrize(
    "arguments",
    [["--max-late", "5"], ["--check", "--max-late", "-1"], ["--check", "--max-failed", "-1"]],
)
def test_wrong_usage(arguments: list[str], call: Call) -> None:
    assert call("taskstatus", *arguments).code == 2
