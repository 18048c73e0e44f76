"""``update_task``: what is named is changed, exactly, and nothing else is."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from django_tasks import api, signals
from django_tasks.api import TaskOptions, TaskTypeError, TaskValueError, add_task, update_task
from django_tasks.models import Task
from django_tasks.store import clock
from django_tasks.store.finish import Ended, finish
from django_tasks.values.outcomes import DONE, Reschedule
from django_tasks.values.status import OWNED, Status
from tests.factories import (
    CODE,
    NOW,
    WORKER,
    a_claim,
    a_row,
    in_utc,
    later,
    state,
    the_row,
    there_is,
)
from tests.worker.parts import heard

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers", "now")]

ATTRIBUTES = ("update_time", "version")


def facts_of(task: Task) -> dict[str, Any]:
    return {
        field.attname: getattr(task, field.attname)
        for field in Task._meta.concrete_fields
        if field.attname not in ATTRIBUTES
    }


CHANGES: list[tuple[str, Any]] = [
    ("biz_ext", {"a": ["é", None]}),
    ("biz_ext", None),
    ("queue", "mail"),
    ("priority", -5),
    ("name", "Offer"),
]


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(("field", "value"), CHANGES)
def test_only_what_is_named_is_changed(status: Status, field: str, value: Any) -> None:
    a_row(status=status, biz_ext=1, attempts=2, rescues=1, last_error="x", when=later(60))
    before = facts_of(the_row())

    assert update_task(CODE, "1", **{field: value})

    assert facts_of(the_row()) == before | {field: value}


@pytest.mark.parametrize("status", Status)
def test_options_come_over_those_that_are_there(status: Status) -> None:
    a_row(status=status, options=TaskOptions(timeout=5, max_attempts=2))
    assert update_task(CODE, "1", timeout=None, on_misfire="skip")
    assert the_row().options == TaskOptions(max_attempts=2, on_misfire="skip")
    assert the_row().status == status


def test_none_is_what_the_handler_says(handlers: Any) -> None:
    class Mail(api.TaskHandler):
        biz_code = CODE
        queue = "mail"
        priority = 7

        def handle(self, task: Any) -> None:
            pass

    handlers(Mail)
    a_row(queue="other", priority=1)
    assert update_task(CODE, "1", queue=None, priority=None)
    assert (the_row().queue, the_row().priority) == ("mail", 7)


@pytest.mark.parametrize("status", [each for each in Status if each not in OWNED])
def test_a_claim_that_has_read_the_old_facts_does_not_take_the_row(status: Status) -> None:
    a_row(status=status)
    update_task(CODE, "1", priority=1)
    assert state() == (status, 1, None)


def test_a_run_that_goes_on_ends_as_it_would() -> None:
    claim = a_claim()
    assert update_task(CODE, "1", priority=9, biz_ext="new")
    assert state()[1:] == (claim.version, WORKER)

    assert not finish([Ended(claim, DONE)], NOW, using="default").lost
    assert not there_is()


@pytest.mark.parametrize("moment", [NOW, later(1), later(-1)], ids=["same", "after", "before"])
def test_a_payload_that_is_written_while_it_runs_stands(
    monkeypatch: pytest.MonkeyPatch, moment: datetime
) -> None:
    claim = a_claim(biz_ext="old")
    monkeypatch.setattr(clock, "now", lambda using: moment)
    update_task(CODE, "1", biz_ext="new")

    finish([Ended(claim, Reschedule(later(60), '"its own"'))], later(2), using="default")

    assert (the_row().biz_ext, in_utc(the_row().when)) == ("new", later(60))


@pytest.mark.parametrize("change", ["priority", "pause"])
def test_another_change_leaves_the_handlers_payload_as_it_returns_it(change: str) -> None:
    claim = a_claim(biz_ext="old")
    if change == "pause":
        api.pause_task(CODE, "1")
    else:
        update_task(CODE, "1", priority=3)

    finish([Ended(claim, Reschedule(later(60), '"its own"'))], later(2), using="default")

    assert the_row().biz_ext == "its own"


@pytest.mark.parametrize("when", [later(600), timedelta(minutes=10)], ids=["datetime", "timedelta"])
def test_a_time_moves_it_as_reschedule_task_does(when: Any) -> None:
    a_row(status=Status.FAILED, attempts=3, biz_ext=1, schedule="every 5m")
    assert update_task(CODE, "1", when=when, name="Offer")
    row = the_row()
    assert (row.status, row.attempts, row.biz_ext, row.name) == (Status.PENDING, 0, 1, "Offer")
    assert (in_utc(row.when), row.schedule) == (later(600), "every 5m")


def test_one_that_runs_runs_again_at_the_new_time() -> None:
    claim = a_claim()
    update_task(CODE, "1", when=later(60))
    assert finish([Ended(claim, DONE)], NOW, using="default").handed_over
    assert (in_utc(the_row().when), state()[0]) == (later(60), Status.PENDING)


def test_a_schedule_begins_with_its_first_time() -> None:
    a_row(biz_ext=1)
    update_task(CODE, "1", schedule="every 30m | timeout 5s")
    row = the_row()
    assert (row.schedule, in_utc(row.when), row.biz_ext) == ("every 30m", later(1800), 1)
    assert row.options == TaskOptions(timeout=5)
    update_task(CODE, "1", schedule="every 1h", when=later(1))
    assert (the_row().schedule, in_utc(the_row().when)) == ("every 1h", later(1))


def test_without_its_schedule_it_needs_a_time() -> None:
    a_row(schedule="every 30m")
    with pytest.raises(TaskTypeError, match="when is missing"):
        update_task(CODE, "1", schedule=None)
    assert update_task(CODE, "1", schedule=None, when=later(5))
    assert (the_row().schedule, in_utc(the_row().when)) == (None, later(5))


def test_a_task_that_is_not_there_is_not_made() -> None:
    assert not update_task(CODE, "1", priority=1)
    assert not update_task(CODE, "1", timeout=1)
    assert not update_task(CODE, "1", when=NOW)
    assert not there_is()


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"priority": 40_000}, "priority"),
        ({"queue": " x"}, "queue"),
        ({"biz_ext": object()}, "biz_ext"),
        ({"name": "x" * 201}, "name"),
        ({"timeout": -1}, "timeout"),
        ({"when": None}, "when"),
        ({"schedule": "every now and then"}, "schedule"),
    ],
)
def test_a_bad_value_is_named_and_nothing_is_written(facts: Any, field: str) -> None:
    a_row()
    before = facts_of(the_row())
    with pytest.raises(TaskValueError) as caught:
        update_task(CODE, "1", **({"name": "Offer"} | facts))
    assert caught.value.field == field
    assert facts_of(the_row()) == before


def test_receivers_hear_of_it() -> None:
    a_row()
    with heard(signals.task_changed) as told:
        update_task(CODE, 1, priority=1)
        update_task(CODE, "2", priority=1)
    assert [(each["biz_num"], each["change"]) for each in told] == [("1", "updated")]


def test_it_is_a_part_of_the_callers_transaction() -> None:
    add_task(CODE, "1", biz_ext="old", timeout=3)
    with transaction.atomic():
        update_task(CODE, "1", biz_ext="é", timeout=5)
        assert (the_row().biz_ext, the_row().options) == ("é", TaskOptions(timeout=5))
        transaction.set_rollback(True)
    assert (the_row().biz_ext, the_row().options) == ("old", TaskOptions(timeout=3))


def test_an_expiry_before_the_new_time_is_refused() -> None:
    a_row()
    with pytest.raises(TaskValueError, match="expires comes before when"):
        update_task(CODE, "1", when=later(600), expires=later(300))
    assert the_row().options == TaskOptions()


@pytest.mark.parametrize("fact", [{"schedule": "every 5m"}, {"queue": "mail"}, {"priority": 3}])
def test_the_plan_of_a_handlers_own_row_is_the_handlers(fact: Any) -> None:
    a_row("@schedule")
    with pytest.raises(TaskValueError, match="is planned by its handler"):
        update_task(CODE, "@schedule", **fact)
    assert update_task(CODE, "@schedule", biz_ext=5)


def test_progress_of_a_run_that_has_failed_goes_when_the_task_waits_again() -> None:
    ways: list[Any] = [api.requeue_task, api.run_task_now, add_task]
    for number, again in enumerate(ways):
        a_row(str(number), status=Status.FAILED, progress={"done": 9})
        again(CODE, str(number))
        assert the_row(str(number)).progress is None
    a_row("running", status=Status.RUNNING, progress={"done": 9})
    add_task(CODE, "running")
    assert the_row("running").progress == {"done": 9}


@pytest.mark.parametrize("others", [{}, {"priority": 3}, {"timeout": 9}], ids=str)
def test_the_schedule_that_is_there_moves_nothing(others: dict[str, Any]) -> None:
    a_row(schedule="every 1h", attempts=2, last_error="x", when=later(60), scheduled_time=later(-9))
    before = the_row()
    assert update_task(CODE, "1", schedule="every 1 hour", **others)
    after = the_row()
    for name in ("when", "scheduled_time", "attempts", "last_error", "schedule"):
        assert getattr(after, name) == getattr(before, name)
    assert update_task(CODE, "1", schedule="every 2h")
    assert (the_row().attempts, the_row().schedule) == (0, "every 2h")


def test_with_a_when_the_schedule_that_is_there_moves_as_that_says() -> None:
    a_row(schedule="every 1h", when=later(60))
    assert update_task(CODE, "1", schedule="every 1h", when=later(7))
    assert in_utc(the_row().when) == later(7)
