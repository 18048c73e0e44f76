"""The search for lanes finds each of them, whatever the names of queues and codes are."""

from collections.abc import Sequence
from itertools import product

import pytest
from django.db.models import Min

from django_tasks.store import lanes as store
from django_tasks.store.lanes import Lane, every_lane, look_everywhere
from django_tasks.store.pauses import Scope, set_pause
from django_tasks.values.status import Status
from tests.factories import NOW, a_row, later, rows, table

pytestmark = pytest.mark.django_db

USING = "default"
# In an order that depends on the collation, and names that some collations take for one.
NAMES = ["", "-", "A", "B", "a", "b", "ä", "é", "z", "中", "a b", "a-b", "ab"]


def grouped(status: Status) -> set[Lane]:
    """The lanes by another way, which reads all rows."""
    keys = ("queue", "priority", "biz_code")
    found = table(status=status).values_list(*keys).annotate(first=Min("when")).order_by()
    return {Lane(*row) for row in found}


@pytest.mark.parametrize("status", [Status.PENDING, Status.FAILED])
def test_each_lane_is_found_with_the_earliest_time_of_it(status: Status) -> None:
    other = Status.PAUSED if status == Status.FAILED else Status.FAILED
    lanes = list(product(NAMES[::2], (-1, 0, 5), NAMES[1::2]))
    for number, (queue, priority, code) in enumerate(lanes):
        place = {"queue": queue, "priority": priority, "biz_code": code, "status": status}
        a_row(f"{number}", when=later(number), **place)
        a_row(f"{number} again", when=later(number + 1), **place)
    a_row("of another status", queue="c", biz_code="c", status=other)

    found = every_lane(status, using=USING)

    assert len(found) == len(lanes)
    assert set(found) == grouped(status)


LENGTHS = {
    "one row each": [1] * 100,
    "as many as a seek takes": [16, 15, 17, *[1] * 16, 16, 32, 1],
    "long": [40] * 5,
    "short behind long": [40, *[1] * 100, 40, 40, *[2] * 50],
    "four and three of a seek": [5, 5, 5, 5, 6, 6, 6, *[1] * 70, 4, 4, 4, 4],
    "one lane": [20],
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_after_a_look_that_has_found_many_lanes_each_is_found_once_however_long(
    lengths: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MANY_LANES", 1)
    assert not every_lane(using=USING)
    for number, length in enumerate(lengths):
        lane = {"queue": f"q{number // 7:03}", "priority": number % 7}
        rows((f"{number} {n}" for n in range(length - 1)), when=later(number + 1), **lane)
        a_row(f"{number} first", when=later(number), **lane)

    first, second = every_lane(using=USING), every_lane(using=USING)

    assert len(first) == len(second) == len(lengths)
    assert set(first) == set(second) == grouped(Status.PENDING)


def test_what_is_paused_comes_along_and_hides_no_lane() -> None:
    a_row("1", queue="mail", biz_code="send")
    scopes = {Scope("mail", ""), Scope("", "send"), Scope("", "")}
    for scope in scopes:
        set_pause(scope, NOW, using=USING)

    found = look_everywhere(using=USING)

    assert [lane[:3] for lane in found.lanes] == [("mail", 0, "send")]
    assert found.pauses == scopes


def test_without_tasks_there_are_pauses_alone() -> None:
    set_pause(Scope("mail", ""), NOW, using=USING)
    found = look_everywhere(using=USING)
    assert not found.lanes
    assert found.pauses == {Scope("mail", "")}
