"""canceltasks, requeuetasks, movetasks, pausetasks, resumetasks."""

import getpass
import sys
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest

from django_tasks.api import paused
from django_tasks.client import changes
from django_tasks.management import base, bulk
from django_tasks.models import Task
from django_tasks.reads import filters
from django_tasks.store import control
from django_tasks.values.status import Status
from tests.commands.conftest import Call
from tests.factories import NOW, a_row, a_worker, in_utc, later, rows, table

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]

COMMANDS = ["canceltasks", "requeuetasks", "movetasks", "pausetasks", "resumetasks"]


def words(command: str) -> list[str]:
    return [command, "--to", "2h"] if command == "movetasks" else [command]


def statuses() -> dict[str, Status]:
    return {row.biz_num: Status(row.status) for row in Task.objects.all()}


@pytest.fixture
def crowd() -> None:
    worker = a_worker().pk
    a_row("waits")
    a_row("runs", status=Status.RUNNING, claimed_by=worker)
    a_row("failed", status=Status.FAILED, exception="a.ConnectionError", attempts=5)
    a_row("other", status=Status.FAILED, exception="a.ValueError", attempts=5)
    a_row("paused", status=Status.PAUSED)
    a_row("elsewhere", biz_code="mail", status=Status.FAILED)


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_done_without_a_filter(command: str, call: Call, crowd: None) -> None:
    before = statuses()
    said = call(*words(command))
    assert said.code == 2
    assert "--all" in said.error
    assert len(said.error.splitlines()) == 1
    assert statuses() == before


MISSPELT = [
    ("--code", "ordre", "No handler and no task has the code 'ordre'; did you mean 'order'?"),
    ("--code", "zzz", "No handler and no task has the code 'zzz'."),
    ("--queue", "defaults", "No handler and no task is in the queue 'defaults'; did you mean"),
]


@pytest.mark.parametrize(("flag", "name", "doubt"), MISSPELT)
@pytest.mark.parametrize("command", [*COMMANDS, "listtasks"])
def test_where_nothing_is_found_a_name_that_nothing_has_is_told(
    command: str, flag: str, name: str, doubt: str, call: Call, crowd: None
) -> None:
    dry = [] if command == "listtasks" else ["--dry-run"]
    said = call(*words(command), flag, name, *dry)
    assert (said.code, said.notes[: len(doubt)]) == (0, doubt)


@pytest.mark.parametrize("command", [*COMMANDS, "listtasks"])
def test_a_name_that_something_has_is_not_doubted(command: str, call: Call, crowd: None) -> None:
    dry = [] if command == "listtasks" else ["--dry-run"]
    assert call(*words(command), "--code", "mail", "--queue", "default", *dry).notes == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_all_goes_without_a_filter(command: str, call: Call, crowd: None) -> None:
    said = call(*words(command), "--all", "--code", "order")
    assert (said.code, "--all" in said.error) == (2, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_changes_nothing(command: str, call: Call, crowd: None) -> None:
    before = statuses()
    said = call(*words(command), "--code", "order", "--since", "1d", "--dry-run")
    assert said.code == 0
    assert "would be" in said
    assert statuses() == before
    assert "dry_run" in call(*words(command), "--code", "order", "--dry-run", "--format", "json")


def test_cancel_what_matches(call: Call, crowd: None) -> None:
    said = call("canceltasks", "--code", "order")
    assert said.splitlines() == [
        "5 tasks were cancelled (code order).",
        "1 of them runs, and is gone when its run ends.",
    ]
    assert statuses() == {"runs": Status.CANCELLING, "elsewhere": Status.FAILED}


def test_cancel_everything(call: Call, crowd: None) -> None:
    assert "6 tasks were cancelled (all tasks)." in call("canceltasks", "--all")
    assert statuses() == {"runs": Status.CANCELLING}


def test_requeue_means_what_failed(call: Call, crowd: None) -> None:
    said = call("requeuetasks", "--code", "order")
    assert said.startswith("2 tasks were requeued (code order).")
    assert {name for name, status in statuses().items() if status == Status.FAILED} == {"elsewhere"}
    assert "1 task was requeued (all tasks)." in call("requeuetasks", "--all")


def test_requeue_by_exception(call: Call, crowd: None) -> None:
    said = call("requeuetasks", "--exception", "ConnectionError", "--since", "midnight")
    assert said.startswith("1 task was requeued (failed, ConnectionError, since ")
    assert statuses()["failed"] == Status.PENDING
    assert statuses()["other"] == Status.FAILED


def test_move_to_a_time(call: Call, crowd: None) -> None:
    assert "1 task was moved" in call("movetasks", "--number", "waits", "--to", "2h")
    assert in_utc(Task.objects.get(biz_num="waits").when) == later(7200)


def test_move_each_by_a_length(call: Call) -> None:
    rows(range(3), when=later(100))
    a_row("x", when=later(-7))
    said = call("movetasks", "--code", "order", "--by", "1h")
    assert said.startswith("4 tasks were moved")
    found = {row.biz_num: in_utc(row.when) for row in Task.objects.all()}
    assert found == {"0": later(3700), "1": later(3700), "2": later(3700), "x": later(3593)}
    call("movetasks", "--number", "x", "--by=-30m")
    assert in_utc(Task.objects.get(biz_num="x").when) == later(3593 - 1800)


def test_a_move_by_too_much(call: Call, crowd: None) -> None:
    said = call("movetasks", "--code", "order", "--by", "9000000d")
    assert said.code == 2
    assert said.error.startswith("by ")
    assert in_utc(Task.objects.get(biz_num="waits").when) == NOW


def test_a_move_goes_one_way(call: Call) -> None:
    assert call("movetasks", "--all").error
    assert call("movetasks", "--all", "--to", "2h", "--by", "2h").error


# Pauses


def test_a_code_is_paused_as_a_whole_and_it_is_kept_who_did_it(
    call: Call, crowd: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "anna")
    said = call("pausetasks", "--code", "order")
    assert said.startswith("Code order is paused: none of its tasks starts")
    ((code, queue, by),) = [(each.biz_code, each.queue, each.by) for each in paused()]
    assert (code, queue, by) == ("order", "", "anna")
    assert statuses()["waits"] == Status.PENDING
    assert call("pausetasks", "--code", "order").startswith("Code order was paused already.")
    assert call("resumetasks", "--code", "order").startswith("Code order is resumed.")
    assert call("resumetasks", "--code", "order").startswith("Code order was not paused")
    assert not paused()


def test_a_queue_a_code_in_a_queue_and_everything(call: Call) -> None:
    call("pausetasks", "--queue", "slow")
    call("pausetasks", "--queue", "slow", "--code", "mail")
    call("pausetasks", "--all")
    scopes = {(each.queue, each.biz_code) for each in paused()}
    assert scopes == {("", ""), ("slow", ""), ("slow", "mail")}
    assert call("resumetasks", "--all", "--format", "json").json["changed"] is True
    assert len(paused()) == 2


def test_tasks_are_paused_one_by_one(call: Call, crowd: None) -> None:
    assert "2 tasks were paused" in call("pausetasks", "--code", "order", "--each")
    found = statuses()
    assert (found["waits"], found["runs"]) == (Status.PAUSED, Status.PAUSING)
    assert not paused()
    assert "1 task was resumed" in call("resumetasks", "--number", "waits")
    assert statuses()["waits"] == Status.PENDING


def test_a_whole_has_no_progress(call: Call) -> None:
    assert call("pausetasks", "--code", "order", "--progress").code == 2


# Many


@pytest.fixture
def many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST_UNASKED", 3)
    rows(range(5))


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def answering(
    monkeypatch: pytest.MonkeyPatch, answer: str, meanwhile: Callable[[], None] = lambda: None
) -> list[str]:
    asked: list[str] = []

    def read(question: str) -> str:
        asked.append(question)
        meanwhile()
        return answer

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", read)
    return asked


def test_many_are_asked_for(call: Call, many_rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, "")
    said = call("canceltasks", "--code", "order")
    assert (said.code, said.error) == (1, "Nothing was changed.")
    assert asked == ["5 tasks would be cancelled (code order). Cancel them? [y/N] "]
    assert Task.objects.count() == 5
    answering(monkeypatch, "y")
    assert call("canceltasks", "--code", "order").code == 0
    assert not Task.objects.exists()


def test_where_nobody_can_be_asked_many_are_refused(
    call: Call, many_rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO())
    said = call("canceltasks", "--code", "order")
    assert (said.code, "--yes" in said.error) == (2, True)
    assert Task.objects.count() == 5


@pytest.mark.parametrize("flag", ["--yes", "--no-input", "-y"])
def test_nobody_is_asked_where_it_is_said(flag: str, call: Call, many_rows: None) -> None:
    assert call("canceltasks", "--code", "order", flag).code == 0
    assert not Task.objects.exists()


def test_a_task_that_does_not_match_any_more_is_left_and_told_of(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(range(3), status=Status.FAILED)
    first = Task.objects.order_by("id").values_list("pk", flat=True)[0]
    change = changes._change

    def meddle(*args: Any, **kwargs: Any) -> Any:
        table(pk=first).update(status=Status.PAUSED)
        return change(*args, **kwargs)

    monkeypatch.setattr(changes, "_change", meddle)
    said = call("requeuetasks", "--code", "order")
    assert said.splitlines() == [
        "2 tasks were requeued (code order).",
        "1 did not match any more when its turn came.",
    ]


def test_a_stop_in_between_says_how_far_it_came(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(range(1001), status=Status.FAILED)
    requeue = control.requeue
    calls: list[int] = []

    def stop(*args: Any, **kwargs: Any) -> int:
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return requeue(*args, **kwargs)

    verb = changes.VERBS[changes.Step.REQUEUE]._replace(change=stop)
    monkeypatch.setitem(changes.VERBS, changes.Step.REQUEUE, verb)
    said = call("requeuetasks", "--all", "--yes")
    assert said.code == 1
    assert said.error == "Stopped before the end. 500 tasks were requeued (all tasks)."


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is looked for by itself, as of very many tasks."""
    monkeypatch.setattr(changes, "FEW", 1)


@pytest.mark.usefixtures("batches")
def test_a_code_that_is_gone_is_not_taken_for_the_beginning_of_a_number(call: Call) -> None:
    rows(range(3), biz_code="mail")
    rows(["mail-1", "mail-2"])
    counted = call("canceltasks", "--search", "mail", "--dry-run")
    assert counted == "3 tasks would be cancelled (code mail).\n"
    assert call("canceltasks", "--search", "mail") == "3 tasks were cancelled (code mail).\n"
    assert set(statuses()) == {"mail-1", "mail-2"}


@pytest.mark.usefixtures("batches")
def test_a_code_that_gets_small_is_searched_as_it_was_counted(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_SEARCHED", 5)
    rows([*(f"eu-{number}" for number in range(4)), *(f"no-eu-{number}" for number in range(4))])
    said = call("canceltasks", "--code", "order", "--search", "eu-")
    assert said == "4 tasks were cancelled (code order, whose number begins with “eu-”).\n"
    assert set(statuses()) == {f"no-eu-{number}" for number in range(4)}


def test_a_code_that_grows_after_it_was_counted_is_searched_as_before(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_SEARCHED", 5)
    monkeypatch.setattr(bulk, "MOST_UNASKED", 1)
    rows(["no-eu-1", "no-eu-2"])
    answering(monkeypatch, "y", meanwhile=lambda: rows(range(5)))
    said = call("canceltasks", "--code", "order", "--search", "eu-")
    assert said == "2 tasks were cancelled (code order, whose number contains “eu-”).\n"
    assert set(statuses()) == set("01234")


# Progress


def test_without_tqdm_lines_come_and_one_says_why_if_asked(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "tqdm_class", lambda: None)
    monkeypatch.setattr(base, "EVERY", 2)
    rows(range(3))
    said = call("canceltasks", "--code", "order", "--progress")
    assert [line for line in said.notes.splitlines() if line] == [
        base.NO_TQDM,
        "3 of 3 tasks",
    ]
    assert "tqdm" not in call("canceltasks", "--code", "order").notes


def test_with_tqdm_there_is_a_bar(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Bar:
        def __init__(self, **facts: Any) -> None:
            self.total, self.done, self.closed = facts["total"], 0, False
            made.append(self)

        def update(self, count: int) -> None:
            self.done += count

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(base, "tqdm_class", lambda: Bar)
    rows(range(3))
    call("canceltasks", "--code", "order")
    assert not made
    rows(range(3))
    call("canceltasks", "--code", "order", "--progress")
    (bar,) = made
    assert (bar.total, bar.done, bar.closed) == (3, 3, True)


def test_json_is_nothing_but_json(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "EVERY", 1)
    rows(range(3))
    said = call("canceltasks", "--code", "order", "--format", "json", "--progress")
    assert said.json == {"filter": {"code": "order"}, "changed": 3, "left": 0, "running": 0}
    assert said.notes == ""
