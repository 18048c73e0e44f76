"""addtask."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_tasks.api import TaskHandler
from django_tasks.client import arguments
from django_tasks.models import Task
from django_tasks.values.status import Status
from tests.commands.conftest import Call
from tests.factories import CODE, NOW, a_row, in_utc, the_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


class Order(TaskHandler):
    biz_code = CODE
    queue = "shop"
    priority = 7

    def handle(self, task: Any) -> None:
        """Nothing."""


@pytest.fixture(autouse=True)
def _handler(handlers: Callable[..., None]) -> None:
    handlers(Order)


def test_a_task_is_due_now_and_as_its_handler_says(call: Call) -> None:
    said = call("addtask", CODE, "42")
    assert said.startswith("order/42: pending, due at 2030-05-17 ")
    row = the_row("42")
    assert (in_utc(row.when), row.queue, row.priority, row.biz_ext) == (NOW, "shop", 7, None)


def test_all_that_can_be_said(call: Call) -> None:
    data = ["--data", '{"sum": 5}', "--queue", "slow", "--priority", "-3", "--name", "A refund"]
    said = call("addtask", CODE, "42", "--in", "30m", "--paused", *data, "--format", "json")
    assert said.json["status"] == "paused"
    row = the_row("42")
    assert in_utc(row.when) == NOW + timedelta(minutes=30)
    assert (row.biz_ext, row.queue, row.priority, row.name) == ({"sum": 5}, "slow", -3, "A refund")
    assert row.status == Status.PAUSED


def test_a_schedule_has_its_own_first_time(call: Call) -> None:
    call("addtask", CODE, "42", "--schedule", "every 30m")
    row = the_row("42")
    assert row.schedule == "every 30m"
    assert in_utc(row.when) == NOW + timedelta(minutes=30)


def test_a_schedule_may_begin_at_a_time(call: Call) -> None:
    call("addtask", CODE, "42", "--schedule", "every 30m", "--when", "2h")
    assert in_utc(the_row("42").when) == NOW + timedelta(hours=2)


def test_one_that_is_there_is_left_alone_unless_it_is_said(call: Call) -> None:
    a_row("42", biz_ext=1)
    said = call("addtask", CODE, "42", "--data", "2")
    assert said.code == 1
    assert "exists already" in said.error
    assert "--on-conflict" in said.error
    assert the_row("42").biz_ext == 1
    assert call("addtask", CODE, "42", "--data", "2", "--on-conflict", "replace").code == 0
    assert the_row("42").biz_ext == 2


def test_a_code_that_nobody_here_knows_is_told_once_by_the_log(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(arguments, "_warn_once", told.append)
    said = call("addtask", "unknown", "1")
    assert (said.code, said.notes, told) == (0, "", ["unknown"])


def test_of_a_key_that_comes_twice_the_last_stands(call: Call) -> None:
    call("addtask", CODE, "42", "--data", '{"a": 1, "b": 1e16, "a": -0.0}')
    assert repr(the_row("42").biz_ext) in ("{'a': 0.0, 'b': 1e+16}", "{'b': 1e+16, 'a': 0.0}")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--data", "{"], "--data"),
        (["--data", "[" * 100_000], "--data"),
        (["--data", "9" * 5000], "--data"),
        (["--data", "1e400"], "biz_ext is not JSON"),
        (["--data", '["\\ud800"]'], "biz_ext must not contain lone surrogates"),
        (["--data", "[18446744073709551616]"], "biz_ext has a whole number beyond 64 bits"),
        (["--when", "soon"], "--when must be a time"),
        (["--in", "7"], "--in has a number"),
        (["--in", "99999999d"], "--in is"),
        (["--schedule", "now and then"], "schedule"),
        (["--queue", "q" * 51], "queue"),
        (["--priority", "99999"], "priority"),
    ],
)
def test_a_bad_value_is_one_sentence(arguments: list[str], word: str, call: Call) -> None:
    said = call("addtask", CODE, "42", *arguments)
    assert said.code == 2
    assert word in said.error
    assert not Task.objects.exists()
