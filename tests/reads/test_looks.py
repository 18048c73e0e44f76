"""The bounded look at the tasks of a filter."""

import pytest

from django_tasks.reads import looks
from django_tasks.reads.filters import TaskFilter
from django_tasks.store import backlog
from django_tasks.values.status import Status
from tests.factories import NOW, later, rows

pytestmark = pytest.mark.django_db


def look() -> tuple[int, int]:
    """The number of tasks that a look has met, where all match, and the one that it tells."""
    found = looks.look(TaskFilter(since=later(-1)), using="default", now=NOW)
    return found.rows.count(), found.looked


@pytest.mark.parametrize("lanes", [2, 4, 9])
def test_more_lanes_than_a_look_has_leave_it_as_many_tasks(
    lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MOST_LOOKS", 2)
    monkeypatch.setattr(looks, "MOST_LOOKS", 2, raising=False)
    monkeypatch.setattr(looks, "LOOKED", 6)
    for number in range(lanes):
        rows(range(number * 10, number * 10 + 4), queue=f"q{number}", status=Status.FAILED)
    assert look() == (6, 6)


def test_a_look_that_finds_less_in_the_lanes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "LOOKED", 6)
    rows(range(9), queue="full", status=Status.FAILED)
    rows(["alone"], queue="empty", status=Status.FAILED)
    assert look() == (4, 4)  # three of each lane, and one has one
