"""The payload: JSON text that every database stores alike."""

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings
from hypothesis import assume, example, given
from hypothesis import strategies as st

from django_tasks.clock import ClockReading, Tick
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import Task
from django_tasks.values import payload_text
from django_tasks.values.claimed import Claimed
from tests.factories import NOW, a_task
from tests.naming import named
from tests.payloads import refused, taken, written

LIMIT = 1_000_000

numbers = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0),  # no -0.0
)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.one_of(st.none(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


@given(values)
@example("\\u0000")
@example("\\\\u0000")
@example({"\\": ["\\u0000", "\u2028", "\x7f", "\ufeff", "\ufffe"]})
def test_what_was_dumped_is_loaded_again(value):
    assert payload_text.load(payload_text.dump(value, LIMIT)) == value


@pytest.mark.django_db
@given(value=values)
@example(value="\\u0000")
@example(value={"a": "\x01\x1f\x7f\u2028\ufeff", "😀": ["'", '"', "\\", "%s", "{x}"]})
@example(value=0)
@example(value="")
@example(value=[])
@example(value={})
@example(value=False)
@example(value="null")
@example(value=[None])
@example(value=1.0)
def test_a_payload_comes_back_from_the_database_as_it_was(value):
    from django_tasks.api import add_task, get_task

    stored = add_task(a_task(biz_ext=value))

    found = get_task(stored.biz_code, stored.biz_num)
    assert found is not None
    for got in (stored.biz_ext, found.biz_ext):
        assert got == value
        assert written(got) == written(value)


@given(values)
@example(["1e+20", '"\\', "-0.0", {'\\"1e+20': -1e20}, 1e-20, -0.05])
def test_floats_are_written_without_exponents_and_texts_as_they_are(value):
    def plain(number):
        assert "e+" not in number
        return float(number)

    text = payload_text.portable(json.dumps(value))

    assert written(json.loads(text, parse_float=plain)) == written(value)


class AnyText(json.JSONEncoder):
    """An encoder that writes by itself, as one that comes with a library does."""

    def encode(self, o):
        return o


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[1, 2", "is not JSON"),
        ("18446744073709551616", "64 bits"),
        ('{"a": NaN}', "is not JSON"),
        ("1e400", "is not JSON"),
        ('"\\ud800"', "surrogates"),
        ('["\\u0000"]', "NUL"),
        ("[" * 100_000 + "]" * 100_000, "is not JSON"),
        ("9" * 5000, "is not JSON"),
    ],
    ids=named,
)
def test_what_an_encoder_of_the_project_has_written_is_looked_at(text, word):
    with pytest.raises(TaskValueError, match=word) as caught:
        payload_text.dump(text, LIMIT, AnyText)
    assert caught.value.field == "biz_ext"


def test_what_it_has_written_well_is_stored_as_it_is():
    assert payload_text.dump('{"a": 1.50}', LIMIT, AnyText) == '{"a": 1.50}'


def test_an_encoder_may_write_less_than_json_would():
    text = f"[{','.join('1' * 100)}]"
    assert payload_text.dump(text, len(text), AnyText) == text


class ByPieces(json.JSONEncoder):
    """An encoder that writes by itself, piece by piece."""

    def iterencode(self, o, _one_shot=False):
        return iter(["[", "NaN", "]"])


def test_what_is_written_by_pieces_is_looked_at_too():
    with pytest.raises(TaskValueError, match="is not JSON"):
        payload_text.dump([1], LIMIT, ByPieces)


@taken
def test_each_payload_that_is_taken_has_a_text_that_means_it(value):
    assert written(payload_text.load(payload_text.dump(value, LIMIT))) == written(value)


@refused
def test_each_payload_that_no_database_keeps_is_refused_by_name(value, word):
    with pytest.raises(TaskValueError, match=word) as caught:
        payload_text.dump(value, LIMIT, field="attributes")
    assert (caught.value.field, caught.value.value) == ("attributes", value)


def test_none_is_no_payload():
    assert payload_text.dump(None, LIMIT) is None
    assert payload_text.load(None) is None


@pytest.mark.parametrize("text", ["", "{", "NaN?", "'x'"])
def test_a_broken_text_is_a_value_error(text):
    with pytest.raises(ValueError):
        payload_text.load(text)


@pytest.mark.parametrize(
    "value",
    [
        *("\0", "a\0b", ["\0"], {"\0": 1}, {"a": {"b": "\\\0"}}),
        *("\ud800", ["\udfff"], {"\udc00": 1}),
        *(math.nan, math.inf, [-math.inf], {"x": math.nan}, {math.nan: 1}, {math.inf: 1}),
    ],
    ids=named,
)
def test_what_some_database_cannot_store_is_refused(value):
    with pytest.raises(TaskValueError) as caught:
        payload_text.dump(value, LIMIT)

    assert caught.value.field == "biz_ext"
    assert caught.value.value is value
    assert not isinstance(caught.value, TypeError)
    assert "biz_ext" in str(caught.value)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", NOW, {(1, 2): 3}, [1j], ...])
def test_what_json_has_no_word_for_is_a_type_error(value):
    with pytest.raises(TaskTypeError) as caught:
        payload_text.dump(value, LIMIT)

    assert (caught.value.field, caught.value.value) == ("biz_ext", value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


def test_a_payload_that_contains_itself_is_refused():
    value: list[Any] = []
    value.append(value)

    with pytest.raises(TaskValueError):
        payload_text.dump(value, LIMIT)


def test_a_number_too_long_for_python_to_write_is_refused():
    with pytest.raises(TaskValueError):
        payload_text.dump(10**5000, LIMIT)


def nested(levels, kind):
    value = 1
    for _ in range(levels):
        value = kind(value)
    return value


KINDS = {"lists": lambda v: [v], "dicts": lambda v: {"a": v}, "tuples": lambda v: (v,)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("levels", [32, 33, 500, 100_000])
def test_deeper_than_31_levels_is_refused(kind, levels):
    with pytest.raises(TaskValueError) as caught:
        payload_text.dump(nested(levels, KINDS[kind]), LIMIT)
    assert caught.value.field == "biz_ext"


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["lists", "dicts"])
def test_31_levels_are_stored(kind):
    from django_tasks.api import add_task

    value = nested(31, KINDS[kind])

    assert add_task(a_task(biz_ext=value)).biz_ext == value
    assert Task.objects.get().biz_ext == value


@pytest.mark.parametrize(("value", "size"), [("x" * 8, 10), ("ü" * 4, 10), ("😀" * 2, 10)])
def test_the_limit_is_in_bytes_of_utf8(value, size):
    assert payload_text.dump(value, size)

    with pytest.raises(TaskValueError, match=f"{size} bytes.*{size - 1}"):
        payload_text.dump(value, size - 1)


@pytest.mark.django_db
def test_a_payload_of_the_default_limit_is_stored():
    from django_tasks.api import add_task

    value = "ü'" * 333_332

    assert add_task(a_task(biz_ext=value)).biz_ext == value


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["x" * 999_998, "😀" * 249_999], ids=["ascii", "emoji"])
def test_a_batch_of_the_largest_payloads_is_stored(text):
    """The servers' limit for one statement is sixteen times a payload's."""
    from django_tasks.api import add_tasks

    assert add_tasks(a_task(str(n), biz_ext=text) for n in range(20)) == 20


# What a handler changed


def a_run(text, attempts=0, rescues=0, asked=False):
    claimed = Claimed(
        id=1,
        version=1,
        biz_code="order",
        biz_num="1",
        when=NOW,
        biz_ext=text,
        queue="default",
        priority=0,
        attempts=attempts,
        rescues=rescues,
        create_time=NOW,
        last_error="",
        schedule=None,
        scheduled_time=None,
        options=None,
        runs=0,
        worker_id=1,
        claim_time=NOW,
    )
    row = SimpleNamespace(is_cancelled=lambda claimed, *, using: asked)
    return RunningTask(claimed, "default", Tick(ClockReading(NOW, 0.0), 0.0), row)


@given(values)
def test_a_payload_that_was_only_read_has_not_changed(value):
    run = a_run(payload_text.dump(value, LIMIT))

    assert run.changed_payload() is None
    assert run.biz_ext == value
    assert run.changed_payload() is None


@given(values, values)
def test_a_payload_that_the_handler_set_has_changed(before, after):
    assume(json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True))
    run = a_run(payload_text.dump(before, LIMIT))
    run.biz_ext = after

    assert json.loads(run.changed_payload()) == after


@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (0, False), (1, 1.0), ([0], [False]), ({"a": 1}, {"a": True})]
)
def test_values_that_python_takes_for_equal_and_json_does_not_are_a_change(before, after):
    run = a_run(payload_text.dump(before, LIMIT))
    run.biz_ext = after

    changed = run.changed_payload()

    assert changed is not None
    assert repr(json.loads(changed)) == repr(after)


def test_a_payload_that_the_handler_changed_in_place_has_changed():
    run = a_run('{"n": [1]}')
    run.biz_ext["n"].append(2)

    assert json.loads(run.changed_payload()) == {"n": [1, 2]}


def test_a_payload_that_the_handler_took_away_is_null():
    run = a_run("[1]")
    run.biz_ext = None

    assert run.changed_payload() == "null"


@pytest.mark.parametrize("value", [object(), math.nan, "\0", "x" * 11])
@override_settings(DJANGO_TASKS={"PAYLOAD_LIMIT": 10})
def test_a_changed_payload_that_cannot_be_stored_is_refused(value):
    run = a_run("[1]")
    run.biz_ext = value

    with pytest.raises(TaskValueError):
        run.changed_payload()


def test_a_broken_payload_fails_when_it_is_read_and_not_before():
    run = a_run("{")

    assert run.changed_payload() is None
    with pytest.raises(ValueError):
        run.biz_ext  # noqa: B018


def test_the_attempt_counts_failures_and_rescues():
    run = a_run(None, attempts=2, rescues=1)

    assert run.attempt == 4
    assert str(run) == "order/1"


@pytest.mark.parametrize("asked", [False, True])
def test_a_run_can_be_asked_to_stop_in_both_worlds(asked):
    run = a_run(None, asked=asked)

    assert run.cancel_requested == asked
    assert async_to_sync(run.acancel_requested)() == asked
