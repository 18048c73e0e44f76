"""listtasks and showtask."""

import re
from typing import Any

import pytest

from django_tasks.api import pause_tasks
from django_tasks.management.commands import listtasks
from django_tasks.models import Task
from django_tasks.reads import filters
from django_tasks.values.status import OWNED, Status
from tests.commands.conftest import Call
from tests.factories import NOW, a_row, a_run, a_worker, in_utc, later

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]

ERROR = "Traceback (most recent call last):\n  File 'x.py'\nshop.ConnectionError: no route\n"


@pytest.fixture
def crowd() -> int:
    """Rows of every kind; the id of the worker that has some of them."""
    worker = a_worker("web-1:77:abc").pk
    for number, status in enumerate(Status):
        owner = {"claimed_by": worker} if status in OWNED else {}
        a_row(f"s{number}", biz_code="refund", status=status, queue="slow", **owner)
    a_row("lost", status=Status.RUNNING, claimed_by=10**6)
    a_row("late", when=later(-500), biz_code="mail")
    a_row("soon", when=later(500), schedule="every 5m")
    a_row(
        "broken",
        status=Status.FAILED,
        exception="shop.ConnectionError",
        last_error=ERROR,
        update_time=later(-3600),
    )
    return worker


def keys(call: Call, *arguments: str) -> set[str]:
    said = call("listtasks", "--format", "json", *arguments)
    assert said.code == 0, said.error
    assert said.json["count"] == len(said.json["tasks"])
    return {f"{each['biz_code']}/{each['biz_num']}" for each in said.json["tasks"]}


def those(matches: Any) -> set[str]:
    found = {str(row) for row in Task.objects.all() if matches(row)}
    assert found
    return found


def due(row: Task) -> Any:
    return in_utc(row.when)


FILTERS: list[tuple[list[str], Any]] = [
    ([], lambda row: True),
    (["--failed"], lambda row: row.status == Status.FAILED),
    (["--status", "cancelling"], lambda row: row.status == Status.CANCELLING),
    (["--late"], lambda row: row.biz_num == "late"),
    (["--due"], lambda row: row.status == Status.PENDING and due(row) <= NOW),
    (["--future"], lambda row: row.biz_num == "soon"),
    (["--code", "refund"], lambda row: row.biz_code == "refund"),
    (["--number", "s2"], lambda row: row.biz_num == "s2"),
    (["--queue", "slow"], lambda row: row.queue == "slow"),
    (["--recurring"], lambda row: row.schedule is not None),
    (["--once", "--due"], lambda row: row.status == Status.PENDING and row.biz_num != "soon"),
    (["--worker", "web-1"], lambda row: row.status in OWNED and row.biz_num != "lost"),
    (["--worker", "web-1:77:abc"], lambda row: row.status in OWNED and row.biz_num != "lost"),
    (["--worker", "1000000"], lambda row: row.biz_num == "lost"),
    (["--stuck"], lambda row: row.biz_num == "lost"),
    (["--exception", "ConnectionError"], lambda row: row.biz_num == "broken"),
    (["--error", "no route"], lambda row: row.biz_num == "broken"),
    (["--search", "refund/s"], lambda row: row.biz_code == "refund"),
    (["--search", "ok", "--code", "order"], lambda row: row.biz_num == "broken"),
    (["--since", "30m"], lambda row: row.status == Status.FAILED and row.biz_num != "broken"),
    (["--since", "midnight"], lambda row: row.status == Status.FAILED),
]


@pytest.mark.parametrize(("arguments", "matches"), FILTERS, ids=lambda each: str(each)[:40])
def test_a_filter_finds_what_it_says(
    arguments: list[str], matches: Any, crowd: int, call: Call
) -> None:
    assert keys(call, *arguments) == those(matches)


def test_a_list_is_in_order_of_time_and_fits(
    call: Call, crowd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = call("listtasks")
    lines = said.splitlines()
    assert lines[1].startswith("mail")
    assert "soon" in lines[-2]
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1] == "10 tasks (all tasks)."


def test_a_list_says_how_many_there_are_besides(call: Call, crowd: int) -> None:
    said = call("listtasks", "--limit", "2")
    assert said.splitlines()[-1] == "10 tasks (all tasks); the 2 earliest are shown."
    assert len(said.splitlines()) == 4


def test_a_long_list_is_counted_no_further(
    call: Call, crowd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listtasks, "MOST_SORTED", 5)
    said = call("listtasks", "--limit", "2")
    assert said.splitlines()[-1].startswith("More than 5 tasks (all tasks)")
    assert call("listtasks", "--format", "json").json["is_more"] is True


@pytest.mark.parametrize("name", ["--limit", "--worker", "--since", "--code", "--exception"])
def test_a_bad_value_is_one_sentence(name: str, call: Call) -> None:
    said = call("listtasks", name, "0" if name == "--limit" else "x" * 300)
    assert said.code == 2
    assert name.strip("-") in said.error.replace("biz_", "")
    assert len(said.error.splitlines()) == 1


def test_a_name_that_two_workers_begin_with(call: Call, crowd: int) -> None:
    a_worker("web-1:78:def")
    said = call("listtasks", "--worker", "web-1")
    assert (said.code, "several workers" in said.error) == (2, True)


def test_the_error_of_a_list_is_its_class_and_the_first_line_of_its_message(call: Call) -> None:
    error = f"{ERROR}LINE 1: SELECT 1\n        ^\n"
    a_row(status=Status.FAILED, exception="shop.ConnectionError", last_error=error)
    _head, row, _sum = call("listtasks", "--exception", "ConnectionError").splitlines()
    assert row.endswith("  ConnectionError: no route")


def test_at_80_columns_the_errors_of_what_has_failed_can_be_read(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    error = "shop.ConnectionError: payments.example.com: no route to host"
    failed = {"status": Status.FAILED, "exception": "shop.ConnectionError", "attempts": 2}
    a_row("1712", biz_code="refund", last_error=error, **failed)
    head, row, _sum = call("listtasks", "--failed").splitlines()
    assert head.split() == ["code", "number", "when", "attempts", "error"]
    assert "ConnectionError: payment" in row
    assert len(row) <= 80


@pytest.mark.parametrize("chosen", [["--failed"], ["--due"], ["--exception", "ConnectionError"]])
def test_a_status_that_all_have_has_no_column(chosen: list[str], call: Call, crowd: int) -> None:
    assert "status" not in call("listtasks", *chosen).splitlines()[0]
    assert "status" in call("listtasks", "--code", "refund").splitlines()[0]


def test_the_last_line_says_that_a_part_of_a_number_is_not_sought_in_a_large_code(
    call: Call, crowd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_SEARCHED", 2)
    said = call("listtasks", "--code", "refund", "--search", "0")
    assert said.splitlines()[-1] == (
        "No tasks (code refund, whose number begins with “0”). Of a code with more than 2 tasks,"
        " only the beginning of a number is sought."
    )
    monkeypatch.setattr(filters, "MOST_SEARCHED", 20)
    said = call("listtasks", "--code", "refund", "--search", "0")
    assert said.splitlines()[-1] == "1 task (code refund, whose number contains “0”)."


# One task


def test_a_task_and_its_life(call: Call) -> None:
    a_row(
        "42",
        status=Status.FAILED,
        attempts=5,
        exception="shop.ConnectionError",
        last_error=ERROR,
        biz_ext={"sum": 5, "to": "日本"},
        name="Refund of order 42",
    )
    a_run(biz_num="42", outcome="failed", error=ERROR, exception="shop.ConnectionError", attempt=5)
    said = call("showtask", "order", "42")
    for part in (
        "order/42: failed",
        "with ConnectionError, after 5 attempts",
        "Refund of order 42",
        "    shop.ConnectionError: no route",
        '"to": "日本"',
        "host-1",
    ):
        assert part in said
    read = call("showtask", "order", "42", "--format", "json").json
    assert read["why"]["kind"] == "failed"
    assert read["task"]["biz_ext"] == {"sum": 5, "to": "日本"}
    assert [run["outcome"] for run in read["runs"]] == ["failed"]


def test_the_last_run_of_a_task_is_told_without_a_history(call: Call) -> None:
    a_row("1", schedule="every 1h", runs=2, last_run=later(-60))
    said = call("showtask", "order", "1")
    assert re.search(r"^last run +2030-05-17 20:29:15 CST$", said, re.MULTILINE)
    for read in (
        call("showtask", "order", "1", "--format", "json").json["task"],
        call("listtasks", "--format", "json").json["tasks"][0],
    ):
        assert (read["runs"], read["last_run"]) == (2, "2030-05-17T12:29:15.123456+00:00")


def test_the_reason_why_it_waits(call: Call) -> None:
    a_row("1", when=later(-500))
    assert "No worker is running." in call("showtask", "order", "1")
    pause_tasks(biz_code="order", by="anna")
    assert ", by anna." in call("showtask", "order", "1")


def test_a_long_payload_and_error_are_cut_unless_said(call: Call) -> None:
    a_row("1", biz_ext="x" * 9000, status=Status.FAILED, last_error="y" * 9000)
    assert "x" * 9000 not in call("showtask", "order", "1")
    whole = call("showtask", "order", "1", "--full")
    assert "x" * 9000 in whole
    assert "y" * 9000 in whole


def test_a_task_that_is_gone_has_its_runs(call: Call) -> None:
    a_run(biz_num="7")
    said = call("showtask", "order", "7")
    assert said.startswith("order/7: it is gone")
    assert call("showtask", "order", "7", "--format", "json").json["task"] is None


def test_a_task_that_never_was(call: Call) -> None:
    said = call("showtask", "order", "7")
    assert (said.code, said.error) == (1, "There is no task order/7.")


def test_a_database_that_does_not_exist(call: Call) -> None:
    said = call("listtasks", "--database", "nowhere")
    assert said.code == 2
    assert "nowhere" in said.error


def test_nothing_that_a_row_holds_moves_the_cursor(call: Call) -> None:
    a_row("\x1b[2J", biz_code="evil\x1b]0;", status=Status.FAILED, last_error="\x1b[31mred")
    for said in (call("listtasks"), call("taskstatus"), call("showtask", "evil\x1b]0;", "\x1b[2J")):
        assert said
        assert "\x1b" not in said
