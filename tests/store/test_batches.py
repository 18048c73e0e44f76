"""Statements stay below what a server takes, counted in bytes as they are sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks import api
from django_tasks.models import Task, TaskRun
from django_tasks.store import runs
from django_tasks.store.batches import MOST_BYTES, batches, most_bytes
from tests.factories import a_line, a_task

pytestmark = pytest.mark.django_db

EMOJI = "\U0001f600"


def as_sent(text: str) -> int:
    """Bytes of a text in a statement for MariaDB, without the quotes."""
    escaped = [each for each in text if each in "'\"\\\0\n\r\x1a"]
    return len(text.encode()) + len(escaped)


@given(st.text(st.sampled_from("a\"'\\\0\n\x1aéß日" + EMOJI)))
def test_no_text_is_longer_than_it_is_taken_for(text: str) -> None:
    assert as_sent(text) <= most_bytes(text) <= 4 * as_sent(text)


def test_a_text_of_plain_letters_is_taken_for_half_as_long() -> None:
    assert (most_bytes("abc"), most_bytes("abé")) == (6, 12)


@pytest.mark.parametrize("letter", ["a", '"', "é", "日", EMOJI])
def test_a_batch_has_no_more_bytes_than_a_statement_may(letter: str) -> None:
    items = [letter * 90_000] * 200
    found = list(batches(items, 1000, lambda text: [text, None, "", text]))
    assert [text for batch in found for text in batch] == items
    assert len(found) > 1
    for batch in found:
        assert sum(2 * as_sent(text) for text in batch) <= MOST_BYTES


def test_an_item_that_is_larger_goes_alone() -> None:
    items = ["", "x" * MOST_BYTES, "", ""]
    assert [len(batch) for batch in batches(items, 9, lambda text: [text])] == [1, 1, 2]


def test_short_ones_are_as_many_as_they_may_be() -> None:
    assert [len(batch) for batch in batches("abcdefg", 3, lambda text: [text])] == [3, 3, 1]


@pytest.mark.parametrize("letter", [EMOJI, '"', "x"])
def test_many_long_tasks_with_long_keys_are_added(letter: str) -> None:
    code, number, queue = EMOJI * 50, EMOJI * 96, EMOJI * 50
    tasks = [
        a_task(f"{number}{i:04}", biz_code=code, queue=queue, priority=0, biz_ext=letter * 3990)
        for i in range(1000)
    ]
    assert api.add_tasks(tasks, batch_size=1000) == 1000
    assert api.add_tasks(tasks, batch_size=1000, on_conflict="keep") == 0
    assert Task.objects.filter(biz_code=code, queue=queue).count() == 1000


# As long as an error is kept; so many of them are more than a statement may have.
LONG = EMOJI * 10_000
MANY = 500


def test_many_lines_with_long_errors_are_recorded() -> None:
    runs.record([a_line(error=LONG)] * MANY, using="default")
    assert TaskRun.objects.filter(error=LONG).count() == MANY
