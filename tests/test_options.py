"""Options of one task: values, their text, and what they do."""

from dataclasses import fields
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from django_tasks import api
from django_tasks.api import (
    Task,
    TaskHandler,
    TaskOptions,
    TaskTypeError,
    TaskValueError,
    add_task,
    add_tasks,
)
from django_tasks.backoff import Delays, Exponential
from django_tasks.client.adding import GivenOptions
from django_tasks.schedules.policies import clauses
from django_tasks.values.options import NO_OPTIONS, options_of_text, options_to_text
from tests.factories import CODE, NOW, a_task, later, the_row, there_is

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers")]

ALL: dict[str, Any] = {
    "max_attempts": 3,
    "timeout": 30.0,
    "expires": later(3600),
    "backoff": Delays((1.0, 60.0)),
    "misfire_grace_time": 600.0,
    "on_misfire": "skip",
    "coalesce": False,
    "catch_up": 7,
}


def test_the_keyword_arguments_are_those_of_the_value() -> None:
    names = [each.name for each in fields(TaskOptions)]
    names.remove("release")  # that of a handler's own row, which its workers keep
    assert sorted(names) == sorted(GivenOptions.__annotations__) == sorted(ALL)


@pytest.mark.parametrize(
    "options",
    [
        TaskOptions(**ALL),
        TaskOptions(backoff=Exponential(timedelta(seconds=1), 3, 60)),
        TaskOptions(coalesce=True),
        TaskOptions(max_attempts=1),
    ],
)
def test_the_text_of_options_reads_back_as_they_were(options: TaskOptions) -> None:
    text = options_to_text(options)
    assert text is not None
    again = options_of_text(text)
    assert options_to_text(again) == text
    assert again.given().keys() == options.given().keys()


def test_no_options_have_no_text() -> None:
    assert options_to_text(NO_OPTIONS) is None
    assert options_of_text(None) is NO_OPTIONS
    assert not TaskOptions()
    assert TaskOptions(catch_up=1)


@pytest.mark.parametrize("text", ["", "7", "[]", "{", '{"timeout": "x"}', '{"when": 1}'])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(TaskValueError, match="options cannot be read"):
        options_of_text(text)


BAD: list[tuple[str, Any, str]] = [
    ("max_attempts", 0, "from 1 to"),
    ("max_attempts", "3", "whole number"),
    ("timeout", -1, "from 0 to"),
    ("timeout", "30s", "timedelta or a number"),
    ("timeout", float("nan"), "from 0 to"),
    ("expires", 30, "datetime or a timedelta"),
    ("expires", timedelta(0), "later than now"),
    ("backoff", "soon", "must be a delay"),
    ("backoff", [], "cannot be empty"),
    ("backoff", type("Own", (), {"delay": lambda self, attempt: 1.0})(), "a row can hold"),
    ("misfire_grace_time", -1, "from 0 to"),
    ("on_misfire", "explode", "'run', 'skip' or 'fail'"),
    ("coalesce", 1, "True or False"),
    ("catch_up", 0, "from 1 to"),
]


@pytest.mark.parametrize(("name", "value", "error"), BAD)
def test_a_bad_option_is_named_and_nothing_is_stored(name: str, value: Any, error: str) -> None:
    with pytest.raises(TaskValueError, match=error) as caught:
        add_task(CODE, "1", **{name: value})
    assert (caught.value.field, caught.value.value) == (name, value)
    assert not there_is()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"coalesce": True, "catch_up": 3}, "catch_up"),
        ({"expires": 60, "on_misfire": "run"}, "on_misfire"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, Any], field: str
) -> None:
    if "expires" in options:
        options["expires"] = timedelta(seconds=options["expires"])
    with pytest.raises(TaskValueError) as caught:
        TaskOptions(**options)
    assert caught.value.field == field


@pytest.mark.parametrize("form", ["code", "task", "task and arguments", "many"])
def test_each_way_to_add_takes_options(form: str) -> None:
    if form == "code":
        add_task(CODE, "1", timeout=30, max_attempts=3)
    elif form == "task":
        add_task(a_task(options=TaskOptions(timeout=30, max_attempts=3)))
    elif form == "many":
        add_tasks([a_task(options=TaskOptions(timeout=30, max_attempts=3))])
    else:
        add_task(a_task(options=TaskOptions(timeout=5, max_attempts=3)), timeout=30)
    assert the_row().options == TaskOptions(timeout=30.0, max_attempts=3)


def test_the_task_that_was_handed_in_is_not_changed_by_them() -> None:
    task = a_task()
    stored = add_task(task, timeout=30)
    assert task.options == NO_OPTIONS
    assert stored.options == TaskOptions(timeout=30)


def test_an_add_without_options_takes_those_that_were_there() -> None:
    add_task(CODE, "1", timeout=30)
    add_task(CODE, "1")
    assert the_row().options == NO_OPTIONS


def test_the_clauses_of_a_schedules_text_become_options() -> None:
    stored = add_task(CODE, "1", schedule="every 30m | grace 10m | attempts 3", timeout=5)
    assert stored.schedule == "every 30m"
    assert stored.options == TaskOptions(misfire_grace_time=600, max_attempts=3, timeout=5)


def test_options_that_are_no_options_are_refused() -> None:
    with pytest.raises(TaskTypeError, match="options must be TaskOptions"):
        add_task(a_task(options={"timeout": 3}))


def test_an_expiry_from_now_is_stored_as_its_moment(now: datetime) -> None:
    add_task(CODE, "1", when=NOW, expires=timedelta(minutes=5))
    assert the_row().options.expires == later(300)


def test_one_that_comes_before_the_task_is_due_is_refused(now: datetime) -> None:
    with pytest.raises(TaskValueError, match="expires comes before when"):
        add_task(CODE, "1", when=later(600), expires=timedelta(minutes=5))
    assert not there_is()


def test_people_read_options_as_the_clauses_of_a_text() -> None:
    said = ", ".join(clauses(TaskOptions(**ALL)))
    assert said.startswith("grace 10m, late skip, catch up 7, timeout 30s, attempts 3, backoff 1s")
    assert said.endswith("expires 2030-05-17 13:30:15 UTC")
    assert list(clauses(TaskOptions(expires=timedelta(minutes=90)))) == ["expires in 1h30m"]


class Plain(TaskHandler):
    biz_code = CODE
    max_attempts = 4
    timeout = 20

    def handle(self, task: Any) -> None:
        pass


def test_dumped_tasks_load_with_their_options() -> None:
    from django.core import serializers

    add_task(CODE, "1", timeout=30, name="Offer")
    add_task(CODE, "2")
    dumped = serializers.serialize("json", Task.objects.all())
    Task.objects.all()._raw_delete("default")
    for each in serializers.deserialize("json", dumped):
        each.save()
    assert the_row("1").options == TaskOptions(timeout=30)
    assert the_row("2").options == NO_OPTIONS
    assert api.get_task(CODE, "1") == the_row("1")


def test_times_of_options_are_aware_utc() -> None:
    expires = datetime(2031, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))
    add_task(CODE, "1", when=NOW, expires=expires)
    assert the_row().options.expires == datetime(2031, 1, 1, tzinfo=timezone.utc)
