"""Input of callers is checked before anything is stored, and the error names it."""

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils.safestring import mark_safe

from django_tasks import api
from django_tasks.api import (
    TaskException,
    TaskTypeError,
    TaskValueError,
    UnknownDatabase,
    add_task,
    add_tasks,
)
from django_tasks.conf import ConfigurationError
from django_tasks.handlers.base import TaskHandler
from django_tasks.models import Task
from django_tasks.worker.config import worker_config
from tests.factories import CODE, NOW, UTC, a_row, a_task
from tests.naming import named

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers")]


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr")


def name_of(value):
    return "unprintable" if isinstance(value, Unprintable) else named(value)


def keys(name, longest):
    """(field, value, kind of error) for what is (part of) a key."""
    values = [
        *("", " x", "x ", "\tx", "x\n", "\u3000x", "x\u00a0", " ", "x" * (longest + 1)),
        *("a\0b", "\0", "\ud800", "x\udfff"),
    ]
    types = [None, True, b"x", ["x"], 1.5, NOW, Unprintable()]
    types += [] if name == "biz_num" else [5, 0]  # an int is taken as its text
    return [(name, value, ValueError) for value in values] + [
        (name, value, TypeError) for value in types
    ]


BAD_FIELDS = [
    *keys("biz_code", 50),
    *keys("biz_num", 100),
    *[item for item in keys("queue", 50) if item[1] not in ("", None)],
    ("when", None, TypeError),
    ("when", "2030-01-01", TypeError),
    ("when", 5, TypeError),
    ("when", date(2030, 1, 1), TypeError),
    ("when", datetime(999, 12, 31, tzinfo=UTC), ValueError),
    ("when", datetime.min, ValueError),
    ("when", datetime.max, ValueError),
    ("when", datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), ValueError),
    ("when", datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))), ValueError),
    ("priority", "1", TypeError),
    ("priority", 1.0, TypeError),
    ("priority", True, TypeError),
    ("priority", 32_768, ValueError),
    ("priority", -32_769, ValueError),
    ("biz_ext", object(), TypeError),
    ("biz_ext", {1, 2}, TypeError),
    ("biz_ext", b"x", TypeError),
    ("biz_ext", {(1, 2): 3}, TypeError),
    ("biz_ext", math.nan, ValueError),
    ("biz_ext", {"x": -math.inf}, ValueError),
    ("biz_ext", "a\0b", ValueError),
    ("biz_ext", {"\ud800": 1}, ValueError),
    ("biz_ext", "x" * 1_000_000, ValueError),
    ("schedule", "now and then", ValueError),
    ("id", "abc", ValueError),
]


bad_fields = pytest.mark.parametrize(("field", "value", "kind"), BAD_FIELDS, ids=name_of)


def check(caught, field, value, kind):
    error = caught.value
    assert isinstance(error, TaskException)
    assert isinstance(error, ValueError)
    assert isinstance(error, TypeError) == (kind is TypeError)
    assert caught.value.field == field
    assert caught.value.value is value or caught.value.value == value
    assert field in str(error)
    assert len(str(error)) < 300
    str(error).encode()  # it can be logged and shown
    assert not Task.objects.exists()


@bad_fields
@pytest.mark.parametrize("on_conflict", ["replace", "keep"])
def test_a_bad_task_is_refused_and_nothing_is_stored(field, value, kind, on_conflict):
    task = a_task()
    setattr(task, field, value)

    with pytest.raises(TaskValueError) as caught:
        add_task(task, on_conflict=on_conflict)

    check(caught, field, value, kind)
    assert caught.value.index is None


@bad_fields
def test_one_bad_task_in_a_batch_stores_nothing_and_its_place_is_named(field, value, kind):
    tasks = [a_task(str(number)) for number in range(5)]
    setattr(tasks[3], field, value)

    with pytest.raises(TaskValueError) as caught:
        add_tasks(tasks, batch_size=2)

    check(caught, field, value, kind)
    assert caught.value.index == 3
    assert "item 3" in str(caught.value)


NO_TASKS = [None, 5, {"biz_code": "order"}, object(), Task]


@pytest.mark.parametrize("value", NO_TASKS, ids=name_of)
def test_what_is_no_task_is_refused(value):
    with pytest.raises(TaskTypeError) as caught:
        add_task(value)
    check(caught, "task", value, TypeError)

    with pytest.raises(TaskTypeError) as caught:
        add_tasks([a_task(), value])
    check(caught, "task", value, TypeError)
    assert caught.value.index == 1


@pytest.mark.parametrize("value", NO_TASKS, ids=name_of)
@pytest.mark.parametrize("wait", [None, 5])
def test_so_it_is_with_debounce_in_the_same_words(value, wait):
    with pytest.raises(TaskTypeError) as usual:
        add_task(value)
    with pytest.raises(TaskTypeError) as caught:
        add_task(value, on_conflict="debounce", wait=wait)
    assert str(caught.value) == str(usual.value)


@pytest.mark.parametrize("value", NO_TASKS, ids=name_of)
@pytest.mark.parametrize("on_conflict", ["replace", "keep", "earliest", "raise", "debounce"])
def test_what_is_no_task_among_many_is_refused_by_the_exception_family(value, on_conflict):
    with pytest.raises(TaskValueError) as caught:
        add_tasks([value], on_conflict=on_conflict)
    assert caught.value.field == ("on_conflict" if on_conflict == "debounce" else "task")


@pytest.mark.parametrize("value", [None, 5, Task()], ids=name_of)
def test_what_is_no_batch_of_tasks_is_refused(value):
    with pytest.raises(TaskTypeError) as caught:
        add_tasks(value)
    check(caught, "tasks", value, TypeError)


@pytest.mark.parametrize("value", [0, -1, 1001, "5", 5.0, None, True], ids=name_of)
def test_a_batch_size_that_makes_no_sense_is_refused(value):
    with pytest.raises(TaskValueError) as caught:
        add_tasks([a_task()], batch_size=value)
    check(caught, "batch_size", value, type(None) if type(value) is int else TypeError)


@pytest.mark.parametrize("value", ["", "REPLACE", "ignore", None, 5, [], {}], ids=name_of)
def test_an_unknown_way_to_handle_conflicts_is_refused(value):
    for add in (add_task, lambda task, **kwargs: add_tasks([task], **kwargs)):
        with pytest.raises(TaskValueError) as caught:
            add(a_task(), on_conflict=value)
        check(caught, "on_conflict", value, type(None))
        assert "'keep'" in str(caught.value)


def test_the_choices_that_are_named_are_those_that_there_are():
    choices = "must be one of 'replace', 'keep', 'earliest', 'raise'"

    with pytest.raises(TaskValueError) as caught:
        add_task(a_task(), on_conflict="debunce")  # type: ignore[call-overload]
    assert str(caught.value) == f"on_conflict {choices}, 'debounce': 'debunce'"

    with pytest.raises(TaskValueError) as caught:
        add_tasks([a_task()], on_conflict="debunce")  # type: ignore[arg-type]
    assert str(caught.value) == f"on_conflict {choices}: 'debunce'"


def test_many_cannot_be_debounced_and_the_error_says_what_can():
    with pytest.raises(TaskValueError) as caught:
        add_tasks([a_task()], on_conflict="debounce")  # type: ignore[arg-type]
    problem = "goes with add_task only, one task at a time"
    assert str(caught.value) == f"on_conflict {problem}: 'debounce'"


def test_many_that_are_no_iterable_are_refused_with_what_they_must_be():
    with pytest.raises(TaskTypeError) as caught:
        add_tasks(5)  # type: ignore[arg-type]
    assert str(caught.value) == "tasks must be an iterable of Tasks: 5"


def test_an_id_that_is_no_number_is_refused_with_what_it_must_be():
    task = a_task()
    task.id = "abc"
    with pytest.raises(TaskValueError, match=r"^id must be a whole number: 'abc'$"):
        add_task(task)


def test_the_id_of_another_task_is_refused():
    row = a_row()
    row.biz_num = "2"

    with pytest.raises(TaskValueError) as caught:
        add_task(row)

    assert (caught.value.field, caught.value.value) == ("id", row.pk)
    assert "order/1" in str(caught.value)
    assert Task.objects.count() == 1


BY_KEY: list[Callable[..., Any]] = [
    api.cancel_task,
    api.get_task,
    api.get_runs,
    api.run_task_now,
    api.pause_task,
    api.resume_task,
    api.requeue_task,
    lambda code, num: api.reschedule_task(code, num, NOW),
    lambda code, num: api.delete_tasks(code, num, match="exact"),
]


@pytest.mark.parametrize(
    ("field", "value", "kind"), [*keys("biz_code", 50), *keys("biz_num", 100)], ids=name_of
)
def test_a_bad_key_is_refused_by_every_function_that_takes_one(field, value, kind):
    arguments = {"biz_code": CODE, "biz_num": "1"} | {field: value}
    for function in BY_KEY:
        with pytest.raises(TaskValueError) as caught:
            function(*arguments.values())
        check(caught, field, value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("", ValueError),
        ("x" * 101, ValueError),
        ("\0", ValueError),
        ("\ud800", ValueError),
        (None, TypeError),
        (True, TypeError),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("match", ["contains", "prefix", "exact"])
def test_a_fragment_that_no_number_can_contain_deletes_nothing(value, kind, match):
    row = a_row()

    for dry_run in (False, True):
        with pytest.raises(TaskValueError) as caught:
            api.delete_tasks(CODE, value, match=match, dry_run=dry_run)
        assert (caught.value.field, caught.value.value) == ("biz_num", value)
        assert isinstance(caught.value, TypeError) == (kind is TypeError)

    assert Task.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("value", ["", "regex", "CONTAINS", None, 5, []], ids=name_of)
def test_an_unknown_way_to_match_deletes_nothing(value):
    a_row()

    with pytest.raises(TaskValueError) as caught:
        api.delete_tasks(CODE, "1", match=value)

    assert (caught.value.field, caught.value.value) == ("match", value)
    assert "must be 'exact', 'prefix', 'contains' or 'all'" in str(caught.value)
    assert Task.objects.exists()


@pytest.mark.parametrize("value", ["x" * 101, "\0", "\ud800", True, 0.5, ["x"]], ids=name_of)
def test_a_fragment_to_look_for_is_text(value):
    a_row()

    with pytest.raises(TaskValueError) as caught:
        api.get_tasks_by_code(CODE, value)
    assert (caught.value.field, caught.value.value) == ("biz_num", value)


BAD_TIMES = [(value, kind) for field, value, kind in BAD_FIELDS if field == "when"]


@pytest.mark.parametrize(("value", "kind"), BAD_TIMES, ids=name_of)
def test_a_bad_time_is_refused_everywhere(value, kind):
    with pytest.raises(TaskValueError) as caught:
        api.reschedule_task(CODE, "1", value)
    check(caught, "when", value, kind)

    if value is not None:
        with pytest.raises(TaskValueError) as caught:
            api.get_tasks_by_code(CODE, when=value)
        check(caught, "when", value, kind)


@pytest.mark.parametrize("alias", ["nowhere", "", "Default", 5, ["default"]], ids=name_of)
def test_an_unknown_database_is_named_with_those_there_are(alias):
    calls = [
        lambda: add_task(a_task(), using=alias),
        lambda: add_tasks([a_task()], using=alias),
        lambda: api.get_tasks_by_code(CODE, using=alias),
        lambda: api.delete_tasks(CODE, "1", using=alias),
        lambda: api.reschedule_task(CODE, "1", NOW, using=alias),
        *[lambda function=function: function(CODE, "1", using=alias) for function in BY_KEY[:6]],
    ]
    for call in calls:
        with pytest.raises(UnknownDatabase, match=r"using.*'default'") as caught:
            call()
        assert isinstance(caught.value, TaskException)
        assert isinstance(caught.value, LookupError)
        assert repr(alias) in str(caught.value)
    assert not Task.objects.exists()


# What looks odd and is good


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "a b",
        "%",
        "'",
        '"',
        "\\",
        "a\u3000b",
        "ü",
        "日本",
        "😀",
        "null",
        "0",
        "\u200b",
        "x" * 50,
    ],
    ids=name_of,
)
def test_odd_keys_are_stored_and_found(text):
    add_task(a_task(text, biz_code=text, queue=text))

    found = api.get_task(text, text)
    assert found is not None
    assert (found.biz_code, found.biz_num, found.queue) == (text, text, text)
    assert [task.pk for task in api.get_tasks_by_code(text, text)] == [found.pk]
    assert api.delete_tasks(text, text, dry_run=True) == 1
    assert api.cancel_task(text, text) == "cancelled"


def test_the_longest_keys_are_stored():
    code, num, queue = "ü" * 50, "😀" * 100, "日" * 50

    add_task(a_task(num, biz_code=code, queue=queue))

    found = api.get_task(code, num)
    assert found is not None
    assert found.queue == queue


@pytest.mark.parametrize("priority", [-32_768, -1, 0, 1, 32_767])
def test_every_priority_of_a_smallint_is_stored(priority):
    assert add_task(a_task(priority=priority)).priority == priority
    assert Task.objects.get().priority == priority


def test_texts_of_django_are_texts():
    from django.db.models import IntegerChoices, TextChoices

    class Codes(TextChoices):
        ORDER = "order", "Order"

    class Priorities(IntegerChoices):
        HIGH = 5

    added = [
        add_task(a_task(mark_safe("1"), biz_code=Codes.ORDER, priority=Priorities.HIGH)),
    ]
    assert add_tasks([a_task(mark_safe("2"), biz_code=Codes.ORDER)], on_conflict="keep") == 1

    assert type(added[0].biz_code) is str
    found = api.get_task("order", "1")
    assert found is not None
    assert found.priority == 5
    assert api.get_task(Codes.ORDER, mark_safe("2")) is not None


class TextOfItsOwn(datetime):
    """As the datetimes of some libraries do."""

    def __str__(self):
        return self.isoformat()


@pytest.mark.parametrize("kind", [TextOfItsOwn])
def test_a_subclass_of_datetime_is_stored_as_its_time(kind):
    when = kind(2030, 5, 17, 12, 30, tzinfo=UTC)

    add_task(a_task("1", when=when))
    add_task(a_task("2", when=datetime(2030, 5, 17, 12, 30, tzinfo=UTC)))

    first, second = Task.objects.order_by("biz_num")
    assert first.when == second.when
    assert Task.objects.filter(when=first.when).count() == 2
    assert len(api.get_tasks_by_code(CODE, when=when)) == 2


@pytest.mark.parametrize(
    "when",
    [
        datetime(1000, 1, 3, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(9999, 12, 29, tzinfo=UTC),
        datetime(2030, 5, 17, 12, 30, 0, 1, tzinfo=timezone(timedelta(hours=-11, minutes=-30))),
    ],
    ids=str,
)
def test_every_time_of_the_range_is_stored_to_the_microsecond(when):
    from tests.factories import in_utc

    assert in_utc(add_task(a_task(when=when)).when) == when
    assert in_utc(Task.objects.get().when) == when


# Control characters


CONTROLS = ["a\nb", "a\x1b[2Jb", "a\x7fb", "a\x85b", "a\x9bb", "a\u2028b", "a\u2029b"]


def refused(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ValueError, match="must not contain control characters") as caught:
        function(*args, **kwargs)
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("text", CONTROLS)
def test_nothing_new_is_called_by_control_characters(text: str, handlers: Any) -> None:
    for field in ("biz_code", "biz_num", "queue", "name"):
        task = a_task(**{"biz_num": "1", field: text})
        assert refused(add_task, task).startswith(f"{field} ")
        assert refused(add_task, task, on_conflict="keep").startswith(f"{field} ")
        assert refused(add_tasks, [task]).startswith(f"item 0: {field} ")
        assert refused(async_to_sync(api.aadd_task), task).startswith(f"{field} ")
        assert refused(async_to_sync(api.aadd_tasks), [task]).startswith(f"item 0: {field} ")
    waits = a_task(text, when=None)
    refused(add_task, waits, on_conflict="debounce", wait=5)
    refused(add_task, CODE, text)
    for names in ({"biz_code": text}, {"biz_code": CODE, "queue": text}):
        refused(handlers, type("Odd", (TaskHandler,), {"handle": lambda self, task: None, **names}))
    refused(worker_config, "default", queues=(text,))
    assert worker_config("default", codes=(text,)).codes == (text,)
    assert not Task.objects.exists()


@pytest.mark.parametrize("text", CONTROLS)
def test_rows_of_old_with_control_characters_are_handled(text: str) -> None:
    a_row(text, biz_code=text, queue=text, name=text)
    key, (found,) = (text, text), api.find_tasks(biz_code=text, biz_num=text, queue=text)
    assert str(found).isprintable()
    assert api.get_task(*key) == found
    assert api.update_task(*key, priority=3, name=text)
    assert api.reschedule_task(*key, NOW)
    assert api.run_task_now(*key)
    assert api.pause_task(*key)
    assert api.resume_task(*key)
    assert api.move_tasks(timedelta(seconds=1), biz_code=text) == 1
    assert api.pause_tasks(biz_code=text, queue=text)
    assert api.resume_tasks(biz_code=text, queue=text)
    assert api.get_lock(text) is None
    again = api.get_task(*key)
    assert again is not None
    again.priority = 5
    assert add_task(again).priority == 5
    again.name = f"{text}!"
    assert refused(add_task, again).startswith("name ")
    assert api.delete_tasks(*key, match="prefix", dry_run=True) == 1
    assert api.cancel_task(*key) == "cancelled"


@pytest.mark.parametrize("text", CONTROLS)
def test_no_lock_is_taken_by_control_characters(text: str) -> None:
    refused(api.lock(text).__enter__)


@pytest.mark.parametrize("text", CONTROLS)
def test_no_worker_is_called_by_control_characters(text: str, settings: Any) -> None:
    settings.DJANGO_TASKS = {"WORKER_NAME": text}
    with pytest.raises(ConfigurationError, match="without colons, blanks and control characters"):
        worker_config("default")
