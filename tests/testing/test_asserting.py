"""Assertions say what is there instead."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from django_tasks.api import (
    Task,
    TaskHandler,
    TaskTypeError,
    TaskValueError,
    add_task,
    add_tasks,
    task_handler,
)
from django_tasks.testing import (
    assert_no_task,
    assert_task_added,
    assertNumTasks,
    captured_tasks,
    drain_tasks,
    freeze_tasks,
    run_due_tasks,
    travel,
)
from tests.testing.conftest import Job

pytestmark = pytest.mark.django_db

NOON = datetime(2040, 5, 17, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def failure(*args: Any, **kwargs: Any) -> str:
    """The words with which an ``assert_task_added`` fails."""
    with pytest.raises(AssertionError) as caught:
        assert_task_added(*args, **kwargs)
    return str(caught.value)


def test_a_task_that_is_there_is_returned() -> None:
    task = add_task("mail", "42", when=HOUR, biz_ext={"to": "a@example.com", "copies": 2})
    for facts in (
        {},
        {"when": HOUR},
        {"to": "a@example.com"},
        {"biz_ext": {"to": "a@example.com", "copies": 2}},
    ):
        assert assert_task_added("mail", "42", **facts) == task
    assert assert_task_added("mail", 42) == task
    assert assert_task_added("mail") == task


def test_a_handler_stands_for_its_code() -> None:
    class Mail(TaskHandler):
        biz_code = "mail"

    @task_handler("push")
    def push(task: Any) -> None:
        """Nothing."""

    add_task("mail", "1")
    add_task("push", "1")
    assert assert_task_added(Mail).biz_code == "mail"
    assert assert_task_added(push, "1").biz_code == "push"
    assertNumTasks(1, add_task, "push", "2", code=push)
    with pytest.raises(AssertionError):
        assert_no_task(Mail)


@pytest.mark.parametrize("wrong", [5, None, object], ids=repr)
def test_what_has_no_code_is_refused(wrong: Any) -> None:
    with pytest.raises(TaskTypeError, match="code must be a text, a handler, or a @task function"):
        assert_task_added(wrong)


def test_none_of_the_code_lists_the_others() -> None:
    assert failure("mail", "1") == (
        "There is no task mail/1. Of this code there is none; of others none"
    )
    with freeze_tasks(NOON):
        add_task("push", "1", biz_ext={"a": 1})
    assert "of others \n  push/1, due 2040-05-17" in failure("mail", "1")


def test_another_number_is_a_near_miss() -> None:
    add_task("mail", "43")
    assert "mail/43 has the number '43', not '42'" in failure("mail", "42")


def test_another_time_is_told_with_how_far_off_it_is() -> None:
    with freeze_tasks(NOON):
        add_task("mail", "1", when=2 * HOUR)
    assert "mail/1 is due 1:00:00 later: 2040-05-17" in failure("mail", "1", when=HOUR)
    assert "mail/1 is due 1:00:00 earlier" in failure("mail", "1", when=NOON + 3 * HOUR)
    assert_task_added("mail", "1", when=NOON + 3 * HOUR, delta=HOUR)
    assert_task_added("mail", "1", when="2040-05-17T14:00:01Z")
    assert "0:00:01 earlier" in failure("mail", "1", when="2040-05-17T14:00:01Z", delta=0.5)


def test_a_timedelta_counts_from_the_add() -> None:
    with freeze_tasks(NOON):
        add_task("mail", "1", when=HOUR)
        with travel(timedelta(days=1)):
            assert_task_added("mail", "1", when=HOUR)
    assert_task_added("mail", "1", when=HOUR)


def test_another_payload_is_told_by_its_keys() -> None:
    add_task("mail", "1", biz_ext={"to": "a", "copies": 2})
    told = failure("mail", "1", to="b", copies=2, cc="c")
    assert "has to='a', not 'b'" in told
    assert "has no 'cc' in its payload" in told
    assert "copies" not in told.partition("Of this code")[2].partition("has no")[0]
    assert "has the payload {'to'" in failure("mail", "1", biz_ext={"to": "a"})
    add_task("mail", "1", biz_ext=[1])
    assert "has the payload [1], which has no keys" in failure("mail", "1", to="a")


def test_the_nearest_come_first_and_not_too_many() -> None:
    for number in range(8):
        add_task("mail", number, biz_ext={"to": "a" if number == 6 else "b"})
    told = failure("mail", "x", to="a").splitlines()
    assert told[1].startswith("  mail/6 has the number")
    assert told[-1] == "  and 3 more"
    assert len(told) == 7


def test_any_of_several_tasks_may_match() -> None:
    for number in range(3):
        add_task("mail", biz_ext={"number": number})
    assert assert_task_added("mail", number=1).biz_ext == {"number": 1}


def test_captured_tasks_are_what_it_looks_at() -> None:
    add_task("mail", "stored")
    with captured_tasks():
        add_task("mail", "1", when=HOUR, biz_ext={"to": "a"})
        assert_task_added("mail", "1", when=HOUR, to="a")
        assert "mail/1 has the number '1'" in failure("mail", "stored")
        with pytest.raises(AssertionError):
            assert_no_task("mail")
        assert_no_task("push")


@pytest.mark.parametrize(
    "wrong", [{"when": "noon"}, {"delta": "soon"}, {"delta": -1}, {"using": "nowhere"}], ids=str
)
def test_bad_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises((TaskValueError, LookupError), match=next(iter(wrong))):
        assert_task_added("mail", "1", **wrong)


def test_no_task_is_none_of_a_code_of_a_number_or_at_all() -> None:
    assert_no_task()
    add_task("mail", "1", biz_ext="payload")
    assert_no_task("push")
    assert_no_task("mail", 2)
    for which in ((), ("mail",), ("mail", 1)):
        with pytest.raises(AssertionError, match=r"there is \n  mail/1, due .*'payload'"):
            assert_no_task(*which)


def test_rows_of_schedules_count_only_by_their_number(job: Job) -> None:
    job(lambda task: None, schedule="every 1h")
    with assertNumTasks(0):
        run_due_tasks()
    assert_no_task()
    assert_no_task("job")
    with pytest.raises(AssertionError):
        assert_no_task("job", "@schedule")
    assert_task_added("job", "@schedule")


def test_the_number_of_tasks_of_a_block_or_a_call() -> None:
    add_task("mail", "before")
    with assertNumTasks(3):
        add_task("mail", "1")
        many = [Task(biz_code="mail", biz_num=str(number), when=NOON) for number in (1, 2)]
        add_tasks(many)
        add_task("push", "1")
    with assertNumTasks(1, code="push"):
        add_task("push", "2")
        add_task("mail", "2")
    with assertNumTasks(0):
        add_task("push", "2", on_conflict="keep")
    assertNumTasks(1, add_task, "mail", "3")


def test_another_number_of_tasks_lists_them() -> None:
    with pytest.raises(AssertionError, match="1 task was added, not 2: \n  mail/1, due"):
        assertNumTasks(2, add_task, "mail", "1")
    with pytest.raises(AssertionError, match="0 tasks were added, not 1: none"):
        assertNumTasks(1, lambda: None)
    with pytest.raises(TaskValueError, match="num must be a whole number"):
        assertNumTasks("1")  # type: ignore[arg-type]


def test_captured_tasks_are_counted_too() -> None:
    with captured_tasks(), assertNumTasks(2):
        add_task("mail")
        add_task("mail")


def test_the_number_counts_what_handlers_add(job: Job) -> None:
    job(lambda task: add_task("other") and None)
    add_task("job", "1")
    with assertNumTasks(1):
        drain_tasks()


def test_the_error_of_a_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), assertNumTasks(2):
        _ = 1 / 0
