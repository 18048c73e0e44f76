"""Adding without a Task: a code, a number and what is said of it."""

import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from json import JSONDecoder, JSONEncoder
from typing import Any
from uuid import UUID

import pytest
from django.test import override_settings
from django.utils.translation import gettext_lazy

from django_tasks import api
from django_tasks.api import (
    OnConflict,
    Task,
    TaskExists,
    TaskHandler,
    TaskTypeError,
    TaskValueError,
    add_task,
    add_tasks,
    cancel_task,
    get_task,
    task_handler,
)
from django_tasks.client import arguments
from django_tasks.store import clock
from django_tasks.values.status import Status
from tests.factories import CODE, NOW, a_row, a_task, in_utc, later, the_row, there_is

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers")]

UUID_4 = UUID("a7d2f0d0-6c62-4a7e-9f0e-4f2f6a3c1b11")


def test_a_code_and_a_number_are_enough_to_run_a_task_now(now: datetime) -> None:
    stored = add_task(CODE, "1")
    assert stored == the_row()
    assert in_utc(stored.when) == now


def test_all_that_a_task_says_may_be_said_at_once(now: datetime) -> None:
    add_task(CODE, "1", when=later(60), biz_ext={"a": 1}, queue="mail", priority=3, name="Offer")
    row = the_row()
    assert (in_utc(row.when), row.biz_ext, row.queue) == (later(60), {"a": 1}, "mail")
    assert (row.priority, row.name) == (3, "Offer")


def test_a_number_that_is_left_out_is_one_that_nobody_else_has() -> None:
    numbers = {add_task(CODE).biz_num for _ in range(100)}
    assert len(numbers) == 100
    assert all(len(number) == 22 and number.isalnum() for number in numbers)


@pytest.mark.parametrize(
    ("given", "text"), [(42, "42"), (-1, "-1"), (UUID_4, str(UUID_4)), (Status.FAILED, "2")]
)
def test_an_int_and_a_uuid_are_taken_as_their_text(given: Any, text: str) -> None:
    assert add_task(CODE, given).biz_num == text
    assert add_task(Task(biz_code=CODE, biz_num=given, when=NOW)).biz_num == text
    assert add_tasks([Task(biz_code=CODE, biz_num=given, when=NOW)]) == 1
    assert the_row(text).version == 2


CALLS: dict[str, Callable[[Any], object]] = {
    "get_task": lambda number: get_task(CODE, number),
    "reschedule_task": lambda number: api.reschedule_task(CODE, number, NOW),
    "update_task": lambda number: api.update_task(CODE, number, priority=1),
    "run_task_now": lambda number: api.run_task_now(CODE, number),
    "pause_task": lambda number: api.pause_task(CODE, number),
    "resume_task": lambda number: api.resume_task(CODE, number),
    "get_tasks_by_code": lambda number: list(api.get_tasks_by_code(CODE, number)),
    "find_tasks": lambda number: list(api.find_tasks(CODE, number)),
    "delete_tasks": lambda number: api.delete_tasks(CODE, number, match="exact", dry_run=True),
    "cancel_tasks": lambda number: api.cancel_tasks(biz_code=CODE, biz_num=number),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("number", [42, UUID_4], ids=["int", "uuid"])
def test_every_function_takes_such_a_number(call: str, number: Any) -> None:
    add_task(CODE, number)
    api.pause_task(CODE, number) if call == "resume_task" else None
    assert CALLS[call](number)


def test_the_history_and_a_cancel_take_such_a_number() -> None:
    add_task(CODE, 42)
    assert api.get_runs(CODE, 42) == []
    assert cancel_task(CODE, 42)
    assert not there_is("42")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("number", [True, 1.0, b"1", object()], ids=repr)
def test_what_is_no_number_is_refused_by_each_of_them(call: str, number: Any) -> None:
    with pytest.raises(TaskTypeError, match="biz_num must be a string, an int or a UUID, not"):
        CALLS[call](number)


@pytest.mark.parametrize(
    "add",
    [
        lambda: add_task(CODE, None),  # type: ignore[call-overload]
        lambda: add_task(Task(biz_code=CODE, biz_num=None, when=NOW)),  # type: ignore[misc]
    ],
    ids=["code", "task"],
)
def test_the_number_of_an_object_that_was_never_saved_is_refused(add: Any) -> None:
    with pytest.raises(TaskTypeError, match=r"biz_num is missing .*never saved"):
        add()
    assert not Task.objects.exists()


@pytest.mark.parametrize("more", [{}, {"schedule": "every 5m"}], ids=["code", "schedule"])
def test_a_time_of_none_is_no_time_and_does_not_mean_now(more: Any) -> None:
    with pytest.raises(TaskTypeError, match="when is no time; leave it out"):
        add_task(CODE, "1", when=None, **more)  # type: ignore[call-overload]
    assert not there_is()


def test_a_task_without_a_time_is_refused() -> None:
    with pytest.raises(TaskTypeError, match="when is missing"):
        add_task(Task(biz_code=CODE, biz_num="1", when=None))  # type: ignore[misc]
    assert not there_is()


def test_a_task_without_a_time_is_refused_and_told_how_to_say_now() -> None:
    with pytest.raises(
        TaskTypeError, match=r"^when is missing \(timedelta\(0\) runs the task now\)"
    ):
        add_task(Task(biz_code=CODE, biz_num="1"))
    with pytest.raises(TaskTypeError, match=r"^item 0: when is missing"):
        add_tasks([Task(biz_code=CODE, biz_num="1")])
    assert not there_is()


@pytest.mark.parametrize("form", ["code", "task"])
def test_a_timedelta_is_from_now_by_the_clock_of_the_database(now: datetime, form: str) -> None:
    wait: Any = timedelta(minutes=30)
    if form == "code":
        add_task(CODE, "1", when=wait)
    else:
        add_task(Task(biz_code=CODE, biz_num="1", when=wait))
    assert in_utc(the_row().when) == later(1800)


def test_no_wait_at_all_is_now_with_a_schedule_too(now: datetime) -> None:
    wait: Any = timedelta(0)
    assert in_utc(add_task(CODE, "1", when=wait, schedule="every 15m").when) == now
    assert in_utc(add_task(Task(biz_code=CODE, biz_num="1", when=wait)).when) == now


@pytest.mark.parametrize("wait", [timedelta.max, timedelta.min])
def test_a_timedelta_out_of_the_range_of_times_is_refused(wait: timedelta) -> None:
    with pytest.raises(TaskValueError, match="when is out of"):
        add_task(CODE, "1", when=wait)


def test_with_a_schedule_the_first_time_is_that_of_the_schedule(now: datetime) -> None:
    assert in_utc(add_task(CODE, "1", schedule="every 30m").when) == later(1800)
    assert in_utc(add_task(CODE, "1", when=later(5), schedule="every 30m").when) == later(5)


def test_on_conflict_is_that_of_any_add(now: datetime) -> None:
    add_task(CODE, "1", when=later(60))
    add_task(CODE, "1", on_conflict="keep")
    assert in_utc(the_row().when) == later(60)
    with pytest.raises(TaskExists):
        add_task(CODE, "1", on_conflict=OnConflict.RAISE)
    add_task(CODE, "1", biz_ext=2, on_conflict="debounce", wait=5)
    assert (in_utc(the_row().when), the_row().biz_ext) == (later(5), 2)


add: Any = add_task
update: Any = api.update_task


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: add(CODE, "1", wen=NOW), "wen is no argument .*did you mean 'when'"),
        (lambda: add(CODE, "1", xyz=1), "xyz is no argument of add_task"),
        (lambda: add(CODE, "1", args=[1]), "args is no argument .*did you mean 'biz_ext'"),
        (lambda: add(a_task(), "1"), "biz_num goes with a biz_code"),
        (lambda: add(a_task(), when=NOW), "when goes with a biz_code"),
        (lambda: add(a_task(), time_out=3), "time_out is no .*did you mean 'timeout'"),
        (lambda: add(CODE, "1", paused="no"), "paused must be True or False"),
        (lambda: add(7), "task must be a biz_code, a handler or a Task"),
        (lambda: update(CODE, "1", prioriti=1), "did you mean 'priority'"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(call: Any, error: str) -> None:
    with pytest.raises(TaskTypeError, match=error):
        call()
    assert not there_is()


# Paused at the add


def test_a_task_may_be_added_paused() -> None:
    assert add_task(CODE, "1", paused=True).status == Status.PAUSED
    assert add_task(a_task("2"), paused=True).status == Status.PAUSED
    api.resume_task(CODE, "1")
    assert the_row().status == Status.PENDING


@pytest.mark.parametrize("conflict", ["replace", "earliest"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Status.PENDING, Status.PAUSED),
        (Status.FAILED, Status.PAUSED),
        (Status.PAUSED, Status.PAUSED),
        (Status.RUNNING, Status.PAUSING),
        (Status.PAUSING, Status.PAUSING),
        (Status.CANCELLING, Status.PAUSING),
    ],
)
def test_one_that_is_there_is_paused_by_it(
    before: Status, after: Status, conflict: OnConflict
) -> None:
    a_row(status=before, when=later(60))
    stored = add_task(CODE, "1", when=NOW, paused=True, on_conflict=conflict)
    assert (stored.status, the_row().status) == (after, after)


def test_one_that_is_kept_is_not_paused_by_it() -> None:
    a_row()
    assert add_task(CODE, "1", paused=True, on_conflict="keep").status == Status.PENDING


def test_a_debounced_task_cannot_be_added_paused() -> None:
    with pytest.raises(TaskValueError, match="paused does not go with"):
        add_task(CODE, "1", on_conflict="debounce", wait=5, paused=True)


# Payloads


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc), "2030-01-02T03:04:05Z"),
        (date(2030, 1, 2), "2030-01-02"),
        (timedelta(hours=1.5), "P0DT01H30M00S"),
        (Decimal("1.10"), "1.10"),
        (UUID_4, str(UUID_4)),
        (gettext_lazy("task"), "task"),
    ],
)
def test_a_payload_may_hold_what_djangos_own_json_takes(value: Any, read: Any) -> None:
    stored = add_task(CODE, "1", biz_ext={"x": [value]})
    assert stored.biz_ext == the_row().biz_ext == {"x": [read]}


class Encoder(JSONEncoder):
    def default(self, value: Any) -> Any:
        if isinstance(value, complex):
            return {"re": value.real, "im": value.imag}
        return super().default(value)


class Decoder(JSONDecoder):
    def __init__(self, **manners: Any) -> None:
        super().__init__(object_hook=_complex, **manners)


def _complex(value: dict[str, Any]) -> Any:
    return complex(value["re"], value["im"]) if value.keys() == {"re", "im"} else value


@override_settings(
    DJANGO_TASKS={
        "PAYLOAD_ENCODER": f"{__name__}.Encoder",
        "PAYLOAD_DECODER": f"{__name__}.Decoder",
    }
)
def test_a_project_may_have_an_encoder_and_a_decoder_of_its_own() -> None:
    assert add_task(CODE, "1", biz_ext=[1 + 2j]).biz_ext == [1 + 2j]
    assert the_row().biz_ext == [1 + 2j]
    task = get_task(CODE, "1")
    assert task is not None
    assert task.biz_ext == [1 + 2j]


class Bottomless(JSONEncoder):
    def default(self, value: Any) -> Any:
        return [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]


class Unreadable(JSONDecoder):
    def decode(self, text: str, *arguments: Any) -> Any:
        raise LookupError("cannot")


@override_settings(DJANGO_TASKS={"PAYLOAD_DECODER": Unreadable})
def test_a_payload_that_could_not_be_read_back_is_not_stored() -> None:
    with pytest.raises(TaskValueError, match="biz_ext cannot be read back"):
        add_task(CODE, "1", biz_ext=1)
    assert not there_is()


class Broken(JSONEncoder):
    def default(self, value: Any) -> Any:
        raise LookupError("nothing there")


@pytest.mark.parametrize(
    ("encoder", "error"), [(Bottomless, "levels deep"), (Broken, "is not JSON .nothing there")]
)
def test_what_such_an_encoder_makes_is_checked_as_well(encoder: Any, error: str) -> None:
    wishes = override_settings(DJANGO_TASKS={"PAYLOAD_ENCODER": encoder})
    with wishes, pytest.raises(TaskValueError, match=error):
        add_task(CODE, "1", biz_ext=1j)
    assert not there_is()


# Codes that nobody has


WARN_ONCE = arguments._warn_once


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a project: of no code anything was said yet."""
    WARN_ONCE.cache_clear()
    monkeypatch.setattr(arguments, "_warn_once", WARN_ONCE)


@pytest.mark.usefixtures("warned")
def test_a_code_that_no_handler_has_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "django_tasks"):
        add_task("nobody", "1")
        add_tasks([Task(biz_code="nobody", biz_num="2", when=NOW)])
    (line,) = caplog.messages
    assert "'nobody'" in line
    assert "STRICT_CODES" in line


@pytest.mark.usefixtures("warned")
def test_it_is_told_with_the_name_that_may_be_meant(
    caplog: pytest.LogCaptureFixture, handlers: Any
) -> None:
    handlers(Known)
    with caplog.at_level(logging.WARNING, "django_tasks"):
        add_task("cancel_unpayed", "1")
        add_task("CANCEL_UNPAID", "1")
        add_task("something_else", "1")
    near, loud, far = caplog.messages
    assert near.endswith(". Did you mean 'cancel_unpaid'?")
    assert loud.endswith(". Did you mean 'cancel_unpaid'?")
    assert far.endswith("(setting STRICT_CODES)")


@pytest.mark.usefixtures("warned")
@override_settings(DJANGO_TASKS={"STRICT_CODES": "off"})
def test_or_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "django_tasks"):
        add_task("nobody", "1")
    assert not caplog.messages


class Known(TaskHandler):
    biz_code = "cancel_unpaid"

    def handle(self, task: Any) -> None:
        pass


@override_settings(DJANGO_TASKS={"STRICT_CODES": "raise"})
def test_or_it_is_refused_with_the_name_that_may_be_meant(handlers: Any) -> None:
    handlers(Known)
    add_task("cancel_unpaid", "1")
    with pytest.raises(TaskValueError, match=r"biz_code has no handler.*'cancel_unpaid'"):
        add_task("cancel_unpayed", "1")
    with pytest.raises(TaskValueError, match="item 0: biz_code has no handler"):
        add_tasks([Task(biz_code="cancel_unpayed", biz_num="1", when=clock.now("default"))])
    assert Task.objects.count() == 1


@task_handler("push")
def push(task: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("handler", "code"), [(Known, "cancel_unpaid"), (Known(), "cancel_unpaid"), (push, "push")]
)
def test_a_handler_may_stand_for_its_code(handler: Any, code: str) -> None:
    assert add_task(handler, "1").biz_code == code


@override_settings(DJANGO_TASKS={"STRICT_CODES": "raise"})
def test_a_number_that_no_database_could_hold_is_refused_in_the_usual_words() -> None:
    with pytest.raises(TaskValueError, match="1000 characters long"):
        add_task(CODE, 10**5000)


def test_a_number_that_is_no_text_does_not_stand_for_those_that_contain_it() -> None:
    add_task(CODE, 10)
    with pytest.raises(TaskTypeError, match="match='exact'"):
        api.delete_tasks(CODE, 1)
    assert there_is("10")
